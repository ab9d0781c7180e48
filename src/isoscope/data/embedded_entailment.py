"""Generate sentence pairs about events and their order in time: entailment, neutral or contradiction.

The premise orders pairs of events ("the doctor called the patient before the lawyer thanked the client"); each pair of
people occurs in at most one event. The hypothesis states the order of one of these pairs. Entailment: roles and time
are as in the premise. Contradiction: only the time is reversed. Neutral: the roles in one event are exchanged, and the
premise does not mention such an event. All three classes use the same words in different orders.

Difficulty 1: one pair, active voice; the premise uses "before", the hypothesis "after". Difficulty 2: both use either
word, and some events are in the passive voice. Each further level adds a pair to the premise. Most roles and times are
usual (a doctor calls a patient, and calling precedes thanking), so a model can start from this prior. Whether the
premise or the hypothesis has the unusual event is random.
"""

from itertools import product
from typing import NamedTuple

from isoscope.data.embedded_draws import Draws

LABELS = ("entailment", "neutral", "contradiction")
COLUMNS = ("sentence1", "sentence2")

SENIORS = ("chef", "coach", "doctor", "editor", "lawyer", "teacher")
JUNIORS = ("author", "client", "guest", "patient", "player", "pupil")
PEOPLE = tuple(product(SENIORS, JUNIORS))
EARLY = ("asked", "called", "invited", "warned")
LATE = ("helped", "paid", "praised", "thanked")

USUAL = 0.85  # share of roles and of times that are usual
ACTIVE = 0.9  # share of events in the active voice, from difficulty 2 on
BEFORE = 0.9  # share of premises with "before", and of hypotheses with "after", from difficulty 2 on


class Event(NamedTuple):
    """An event: agent, verb, patient."""

    agent: str
    verb: str
    patient: str

    def turned(self) -> "Event":
        """Return the event with its roles exchanged."""
        return Event(self.patient, self.verb, self.agent)


class Story(NamedTuple):
    """An event that is usually early, an event that is usually late, and whether they occur in this order."""

    early: Event
    late: Event
    usual: bool


def group(draws: Draws, difficulty: int, seen: set[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return an example of each class that is not in `seen`. Raises `SpentError` if none is left."""

    def one(label: str) -> tuple[str, ...]:
        return draws.until(
            lambda: _example(draws, difficulty, label), lambda pair: pair not in seen, f"examples of {label}"
        )

    return [one(label) for label in LABELS]


def _example(draws: Draws, difficulty: int, label: str) -> tuple[str, ...]:
    people = draws.sample(PEOPLE, 2 * max(1, difficulty - 1))
    changed = {"entailment": "", "neutral": draws.pick(("early", "late")), "contradiction": "usual"}[label]
    asked = _story(draws, people[0], people[1], even=changed)
    others = [_story(draws, *two, even="") for two in zip(people[2::2], people[3::2], strict=True)]
    claim = asked
    if changed == "usual":
        claim = asked._replace(usual=not asked.usual)
    elif changed:
        claim = asked._replace(**{changed: getattr(asked, changed).turned()})._replace(usual=draws.coin(USUAL))
    active, before, again = (1.0, 1.0, 0.0) if difficulty == 1 else (ACTIVE, BEFORE, 1 - BEFORE)
    premise = " ; ".join(_tell(draws, story, active, before) for story in draws.shuffled([asked, *others]))
    return f"{premise} .", f"{_tell(draws, claim, active, again)} ."


def _story(draws: Draws, early: tuple[str, str], late: tuple[str, str], *, even: str) -> Story:
    """Return a story whose fact `even` is usual with probability 1/2, so that neither text alone reveals the label."""
    usual = {fact: draws.coin(0.5 if fact == even else USUAL) for fact in Story._fields}
    one, two = Event(early[0], draws.pick(EARLY), early[1]), Event(late[0], draws.pick(LATE), late[1])
    return Story(one if usual["early"] else one.turned(), two if usual["late"] else two.turned(), usual["usual"])


def _tell(draws: Draws, story: Story, active: float, before: float) -> str:
    first, second = (
        f"the {agent} {verb} the {patient}" if draws.coin(active) else f"the {patient} was {verb} by the {agent}"
        for agent, verb, patient in (story[:2] if story.usual else story[1::-1])
    )
    return f"{first} before {second}" if draws.coin(before) else f"{second} after {first}"
