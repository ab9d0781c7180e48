"""Planes of frames that are copies of each other, turned, mirrored or tilted by known angles."""

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.decomposition import PCA

from isoscope.geometry.planes import planes

N, D = 60, 7


def frame(seed: int = 0, n: int = N, d: int = D) -> np.ndarray:
    """Points whose two largest variances are apart from each other and from the rest."""
    spread = np.array([4.0, 2.0, *[0.5] * (d - 2)])
    points = np.random.default_rng(seed).standard_normal((n, d)) * spread
    points[0] += 3 * spread  # no symmetry
    return points


def tilt(angle: float, first: int = 0) -> np.ndarray:
    """Turn the axes `first` and the next by an angle in radians."""
    turned = np.eye(D)
    turned[first : first + 2, first : first + 2] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return turned


def turn(seed: int) -> np.ndarray:
    return ortho_group.rvs(D, random_state=np.random.default_rng(seed))


@pytest.mark.parametrize("n, d", [(60, 7), (20, 100)])
@pytest.mark.parametrize("alignment", ["procrustes", "sign"])
def test_one_frame_is_the_principal_plane(alignment: str, n: int, d: int) -> None:
    points = frame(n=n, d=d)
    peer = PCA(2).fit(points)
    found = planes([points], alignment)
    signs = np.sign((found.coordinates[0] * peer.transform(points)).sum(0))
    assert found.coordinates[0] * signs == pytest.approx(peer.transform(points), abs=1e-9)
    assert found.explained[0] == pytest.approx(peer.explained_variance_ratio_)
    assert found.angles[0] == pytest.approx(0, abs=1e-5)
    assert found.reference == 0


def test_a_turned_moved_copy_lies_exactly_on_its_original_under_procrustes() -> None:
    copies = [frame() @ turn(1) + 3.0, frame() @ turn(2), frame()]
    found = planes(copies, "procrustes")
    assert found.coordinates[0] == pytest.approx(found.coordinates[2], abs=1e-9)
    assert found.coordinates[1] == pytest.approx(found.coordinates[2], abs=1e-9)
    assert found.reference == 2
    assert found.angles[:2].min() > 1  # in the space the planes are others
    other = planes([*copies[:2], frame(seed=5)], "procrustes")
    assert np.abs(other.coordinates[0] - other.coordinates[2]).max() > 1


def test_procrustes_is_the_nearest_turn_or_reflection() -> None:
    frames = [frame(0), frame(0) + frame(1)]
    found = planes(frames, "procrustes", reference=0)
    apart = ((found.coordinates[1] - found.coordinates[0]) ** 2).sum()
    for angle in np.linspace(0, 2 * np.pi, 60):
        turned = found.coordinates[1] @ tilt(angle)[:2, :2]
        for mirror in (1, -1):
            assert ((turned * [1, mirror] - found.coordinates[0]) ** 2).sum() >= apart - 1e-9
    assert found.coordinates[0] == pytest.approx(planes(frames[:1], "sign").coordinates[0])  # the reference stays


def test_signs_follow_the_frame_before() -> None:
    """Axes that turn on slowly past the point where "the largest entry is positive" would flip them."""
    frames = [frame() @ tilt(angle) for angle in np.linspace(0, 2 * np.pi, 25)]
    found = planes(frames, "sign").coordinates
    assert (np.diff(found, axis=0) ** 2).sum((1, 2)).max() < 1e-12  # scores of turned copies are the same
    alone = np.stack([planes([one], "sign").coordinates[0] for one in frames])
    assert (np.diff(alone, axis=0) ** 2).sum((1, 2)).max() > 1


def test_sign_only_mirrors_and_does_not_turn() -> None:
    frames = [frame(0), frame(0)[:, [1, 0, *range(2, D)]] * ([1.0, -1.0] + [1.0] * (D - 2)), frame(3)]
    found = planes(frames, "sign").coordinates
    for one, points in zip(found, frames, strict=True):
        own = PCA(2).fit_transform(points)
        assert np.abs(one) == pytest.approx(np.abs(own), abs=1e-9)
    assert (found[:-1] * found[1:]).sum(1).min() > 0


def test_joint_axes_are_common_to_all_frames() -> None:
    """Joint alignment: equal frames coincide, and a shift of a frame's mean has no effect."""
    frames = np.stack([frame(0), frame(0), frame(3)])
    found = planes(frames, "joint")
    assert np.array_equal(found.coordinates[0], found.coordinates[1])
    drifted = planes(frames + 100.0 * np.random.default_rng(9).standard_normal((3, 1, D)), "joint")
    assert drifted.coordinates == pytest.approx(found.coordinates, abs=1e-9)
    centred = (frames - frames.mean(1, keepdims=True)).reshape(-1, D)
    flat, expected = found.coordinates.reshape(-1, 2), PCA(2).fit_transform(centred)
    assert flat * np.sign((flat * expected).sum(0)) == pytest.approx(expected, abs=1e-9)


def test_explained_is_of_a_frame_s_own_variance() -> None:
    frames = [frame(0), frame(0) @ turn(1), 100 * frame(2)]
    for alignment in ("procrustes", "sign", "joint"):
        found = planes(frames, alignment)
        for one, coordinates, points in zip(found.explained, found.coordinates, frames, strict=True):
            assert one == pytest.approx(coordinates.var(0) / points.var(0).sum())
    own = [PCA(2).fit(points).explained_variance_ratio_ for points in frames]
    assert planes(frames, "sign").explained == pytest.approx(np.array(own))
    assert planes(frames, "procrustes").explained.sum(1) == pytest.approx(np.sum(own, 1))  # a turn moves it about
    joint = planes(frames, "joint").explained.sum(1)
    assert joint[2] == pytest.approx(own[2].sum(), rel=1e-3)  # the large frame decides
    assert joint[1] < own[1].sum() - 0.1


@pytest.mark.parametrize("alignment", ["procrustes", "sign"])
@pytest.mark.parametrize("angle", [0.0, 30.0, 90.0])
def test_angles_are_those_a_plane_was_tilted_by(angle: float, alignment: str) -> None:
    """The first axis stays, the second tilts into the third dimension."""
    exact = np.zeros((N, D))
    exact[:, :2] = PCA(2).fit_transform(frame())
    found = planes([exact, exact @ tilt(np.radians(angle), 1)], alignment, reference=0)
    assert found.angles[0] == pytest.approx([0, 0], abs=1e-5)
    assert found.angles[1] == pytest.approx([angle, 0], abs=1e-5)


def test_a_frame_that_is_one_point_has_no_share_and_leaves_the_others_alone() -> None:
    frames = [np.full((N, D), 0.1), frame(), frame() @ turn(1)]
    for alignment in ("procrustes", "sign", "joint"):
        found = planes(frames, alignment)
        assert np.isnan(found.explained[0]).all()
        assert np.isfinite(found.explained[1:]).all()
        assert np.isfinite(found.coordinates).all()
    assert not planes(frames, "procrustes").coordinates[0].any()
    assert planes(frames, "procrustes").coordinates[1] == pytest.approx(
        planes(frames[1:], "procrustes").coordinates[0], abs=1e-9
    )


@pytest.mark.parametrize("n, d", [(5, 30), (30, 5)])
def test_a_line_of_points_has_all_its_variance_along_one_axis(n: int, d: int) -> None:
    line = np.outer(np.arange(float(n)), np.arange(1.0, d + 1))
    found = planes([line, line], "procrustes")
    assert found.explained[0] == pytest.approx([1.0, 0.0], abs=1e-12)
    assert np.isfinite(found.coordinates).all()
