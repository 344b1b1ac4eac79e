from keras_seqmech.layers.receptive_field import ReceptiveFieldWindows
from keras_seqmech.layers.receptive_field import RFCell
from keras_seqmech.layers.receptive_field_rnn import ReceptiveFieldRNN

__all__ = ["RFCell", "ReceptiveFieldRNN", "ReceptiveFieldWindows"]
