from keras_seqmech.layers.receptive_field import RFCell
from keras_seqmech.layers.receptive_field_rnn import ReceptiveFieldRNN
from keras_seqmech.layers.receptive_field_windows import ReceptiveFieldWindows

__all__ = ["RFCell", "ReceptiveFieldRNN", "ReceptiveFieldWindows"]
