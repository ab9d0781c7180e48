"""The package exports each measure by name from its module, and nothing else."""

from importlib import import_module

import pytest

import isoscope
from isoscope import geometry


def test_each_measure_is_its_modules_own() -> None:
    assert geometry.__all__ == sorted({*geometry.__all__}), "no name of two modules"
    for module, names in geometry.FUNCTIONS.items():
        for name in names:
            found = getattr(geometry, name)
            assert found is getattr(import_module(f"isoscope.geometry.{module}"), name)
            assert found.__module__ == f"isoscope.geometry.{module}"
            assert name in dir(geometry)


def test_the_package_can_be_called_is_reached_from_the_top_and_has_nothing_else() -> None:
    assert isoscope.geometry is geometry
    assert callable(geometry)
    with pytest.raises(AttributeError, match="no attribute 'isotrophy'"):
        geometry.isotrophy  # noqa: B018
