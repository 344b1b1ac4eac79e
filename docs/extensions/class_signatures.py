"""Signatures of Keras' layers and models are those of their constructors.

Keras defines `__new__(cls, *args, **kwargs)`, which Sphinx shows otherwise.
"""

import inspect

import keras
from sphinx.application import Sphinx
from sphinx.util.inspect import stringify_signature


def of_constructor(app, what, name, value, options, signature, returns):
    if what != "class" or not issubclass(value, keras.Operation):
        return None
    found = inspect.signature(value.__init__)
    arguments = list(found.parameters.values())[1:]
    found = found.replace(parameters=arguments)
    return stringify_signature(found, show_annotation=False), returns


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-signature", of_constructor)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
