"""Pairs of sentences about who did what to whom, and what came first: entailment, neutral or contradiction.

The premise puts pairs of events in order ("the doctor called the patient before the lawyer thanked the client"); no two
of its events join the same two people. The hypothesis puts one of these pairs in order again. It is entailed if people
and time are as in the premise, and contradicted if only the time is the other way round; if in one of its events the
two people have changed places, the premise says nothing of it: neutral. The three are the same words in other orders.

Difficulty 1: one pair, in the active voice; the premise says "before", the hypothesis "after". 2: both say either, and
some events are told in the passive voice. Each level more is another pair in
the premise. Most events and times are the usual ones (a doctor calls a patient rather than a patient a doctor, and is
called before being thanked), so a comparison can be begun by habit; which sentence tells of the unusual one is chance.
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

USUAL = 0.85  # share of the roles and of the times that are the usual ones
ACTIVE = 0.9  # share of events told in the active voice, from difficulty 2 on
BEFORE = 0.9  # share of premises that say "before", and of hypotheses that say "after", from difficulty 2 on


class Event(NamedTuple):
    """Somebody did something to somebody."""

    agent: str
    verb: str
    patient: str

    def turned(self) -> "Event":
        """The same with the roles exchanged."""
        return Event(self.patient, self.verb, self.agent)


class Story(NamedTuple):
    """An event of a kind that mostly comes early, one of a kind that mostly comes late, and whether it was so."""

    early: Event
    late: Event
    usual: bool


def group(draws: Draws, difficulty: int, seen: set[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """An example of each class that `seen` lacks. Raises `SpentError` when there is no other one."""

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
    """A story whose fact `even` is usual as often as not: what the claim changes then shows in neither text alone."""
    usual = {fact: draws.coin(0.5 if fact == even else USUAL) for fact in Story._fields}
    one, two = Event(early[0], draws.pick(EARLY), early[1]), Event(late[0], draws.pick(LATE), late[1])
    return Story(one if usual["early"] else one.turned(), two if usual["late"] else two.turned(), usual["usual"])


def _tell(draws: Draws, story: Story, active: float, before: float) -> str:
    first, second = (
        f"the {agent} {verb} the {patient}" if draws.coin(active) else f"the {patient} was {verb} by the {agent}"
        for agent, verb, patient in (story[:2] if story.usual else story[1::-1])
    )
    return f"{first} before {second}" if draws.coin(before) else f"{second} after {first}"
