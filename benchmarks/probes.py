"""Compare logistic probes with scikit-learn: our solver fits many labels and penalties at once.

Gaussian points with a planted linear signal; the labels of 12 tasks, each fitted with six penalties, like one fold of
`geometry.probes.linear_probes`. It prints how far the worst fit ends above its minimum; ours must end within 1e-5 nats
per point. One thread. Prints Markdown.
"""

import argparse

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits
from timing import bound, conclude, interleave, table

from isoscope.geometry.probes import PENALTIES
from isoscope.geometry.regressions import chances, logistic_regressions

TOLERANCE = 1e-5  # nats per point
SOLVERS = ("newton-cholesky", "lbfgs")


def excess(design: np.ndarray, target: np.ndarray, weights: np.ndarray, chance: np.ndarray, c: float) -> float:
    """Return the objective per point: mean −ln p(label) + ‖weights‖² / (2 C n)."""
    told = np.take_along_axis(chance, target[None], 0)
    return float(-np.log(told).mean() + (weights**2).sum() / (2 * c * len(design)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="seconds, figures without meaning")
    parser.add_argument("--rounds", type=int, default=3)
    smoke = parser.parse_args().smoke
    rounds = 1 if smoke else parser.parse_args().rounds
    rows = []
    for n, d, classes, tasks in ((60, 8, 2, 2),) if smoke else ((800, 64, 2, 12), (800, 64, 6, 12), (1600, 384, 2, 12)):
        random = np.random.default_rng(0)
        points = random.standard_normal((n, d)) * np.geomspace(3, 0.1, d)
        points = (points - points.mean(0)) @ np.linalg.svd(points - points.mean(0), full_matrices=False)[2].T
        signal = points @ random.standard_normal((d, tasks * classes)) + random.standard_normal((n, tasks * classes))
        labels = signal.reshape(n, tasks, classes).argmax(2).T
        design = np.column_stack([points, np.ones(n)])
        energy = (design**2).sum(0)
        copies, strength = np.repeat(labels, len(PENALTIES), 0), np.tile(PENALTIES, tasks)
        ours = lambda: logistic_regressions(design, energy, copies, classes, strength, tolerance=TOLERANCE)  # noqa: E731, B023

        def peer(solver: str) -> list[LogisticRegression]:
            return [
                LogisticRegression(C=c, solver=solver, tol=1e-4, max_iter=10_000).fit(points, of)  # noqa: B023
                for of, c in zip(copies, strength, strict=True)  # noqa: B023
            ]

        fits = ours()
        exact = [
            LogisticRegression(C=c, solver="newton-cholesky", tol=1e-10).fit(points, of)
            for of, c in zip(copies, strength, strict=True)
        ]
        worst = {"ours": 0.0, **dict.fromkeys(SOLVERS, 0.0)}
        found = {solver: peer(solver) for solver in SOLVERS}
        for at, (of, c, best) in enumerate(zip(copies, strength, exact, strict=True)):
            least = excess(design, of, best.coef_, best.predict_proba(points).T, c)
            mine = excess(design, of, fits.coefficients[at][:, :-1], chances(design, fits)[at], c)
            worst["ours"] = max(worst["ours"], mine - least)
            for solver in SOLVERS:
                other = found[solver][at]
                worst[solver] = max(
                    worst[solver], excess(design, of, other.coef_, other.predict_proba(points).T, c) - least
                )
        bound(f"{n} × {d}, {classes} classes: worst fit", worst["ours"], TOLERANCE, "nats a point")
        cases = {"ours": ours, **{solver: (lambda s=solver: peer(s)) for solver in SOLVERS}}
        with threadpool_limits(1):
            timed = interleave(cases, rounds, warm_up=0)
        for name in cases:
            ratio = timed[name].middle / timed["ours"].middle
            rows.append(
                (
                    f"{n} × {d}, {classes} classes: {name}",
                    str(len(copies)),
                    f"{timed[name].middle:.2f}",
                    f"{ratio:.2f} ×",
                    f"{worst[name]:.1e}",
                )
            )
    heads = ("points, solver", "fits", "seconds", "of ours", "nats a point above the minimum, worst fit")
    print(table("Logistic regressions, one thread", heads, rows))
    conclude(smoke=smoke)


if __name__ == "__main__":
    main()
