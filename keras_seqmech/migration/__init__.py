"""From trained Keras layers to layers of this package, and back.

What comes out gives the answers of what went in, and learns from there.
"""

from keras_seqmech.migration.focused_encoder import focused_encoder_from_keras
from keras_seqmech.migration.focused_encoder import focused_encoder_to_keras
from keras_seqmech.migration.models import add_receptive_fields
from keras_seqmech.migration.receptive_field import receptive_field_from_keras

__all__ = [
    "add_receptive_fields",
    "focused_encoder_from_keras",
    "focused_encoder_to_keras",
    "receptive_field_from_keras",
]
