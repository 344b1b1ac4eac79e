"""From trained Keras layers to layers of this package.

A migrated layer gives the same answers as the given one, and can be trained on.
"""

from keras_seqmech.migration.focused_encoder import focused_encoder_from_keras
from keras_seqmech.migration.models import add_receptive_fields
from keras_seqmech.migration.receptive_field import receptive_field_from_keras

__all__ = [
    "add_receptive_fields",
    "focused_encoder_from_keras",
    "receptive_field_from_keras",
]
