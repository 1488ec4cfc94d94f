"""A ranker beside a baseline: modes over real HTTP, assignments that a replay repeats, the brake, and servers that agree."""

from __future__ import annotations

import httpx
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.serving.running import until
from tests.serving.test_http import Server
from tests.serving.test_requests import sound

import recurrank as rr
from recurrank.catalogue import Catalogue
from recurrank.rankers.ranker import registered
from recurrank.serving.asked import Asked
from recurrank.serving.events import Kind, ShownRequest, names_in, pack_request, shown_in, slate_size, unpack_items
from recurrank.serving.experiment import Experiment, Rollout, RolloutSettings, turned
from recurrank.serving.fold import new_fold
from recurrank.serving.http.gate import Limits
from recurrank.serving.service import Service, Settings
from recurrank.serving.spec import LoggedSpec, RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report
from recurrank.serving.trial import NOTHING, Trial, attach, bare, trial_of

NAMES = [f"i{n}" for n in range(8)]
ITEMS = [{"id": name, "features": [1.0, n / 10]} for n, name in enumerate(NAMES)]
CATALOGUE = Catalogue([item["features"] for item in ITEMS], NAMES)
BASELINE = ["i4", "i6", "i1", "i0"]
KINDS = ("balanced", "anchored", "cascade-klucb")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(f"sqlite:///{tmp_path_factory.mktemp('experiments')}/x.db", limits=Limits())
    yield running
    running.stop()


@pytest.fixture
def http(server):
    for name in server.service.names():
        server.service.delete(name)
    with httpx.Client(base_url=server.url, timeout=120) as client:
        yield client


def made(http, algorithm: str, **settings) -> None:
    body = {"algorithm": algorithm, "positions": 2, "rounds": 1000, "items": ITEMS, **settings}
    assert http.put("/v1/rankers/shop", json=body).status_code == 200


def rank(http, **asked) -> dict:
    answer = http.post("/v1/rankers/shop/rank", json={"baseline": BASELINE, **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()


def mode(http, **change) -> dict:
    answer = http.patch("/v1/rankers/shop/experiment", json=change)
    assert answer.status_code == 200, answer.text
    return answer.json()


@given(
    st.lists(st.integers(0, 2**30 - 1), min_size=1, max_size=5, unique=True),
    st.none() | st.text(min_size=1, max_size=40),
    st.sampled_from(["", "baseline", "ranker", "interleaved"]),
)
def test_what_stands_beside_a_slate_changes_nothing_of_it(items, subject, arm):
    trial, names = Trial(subject, arm, None if arm else ["x"], [0, 1, 0.25]), [str(item) for item in items]
    alone = np.array(items, "<i4").tobytes()
    request = pack_request(ShownRequest(names, b"", True, [], None, 0, 0.0, len(items)))
    for slate in (alone, request):
        both = attach(slate, trial)
        assert bare(both) == slate
        assert msgspec.structs.replace(trial_of(both), salt=None) == trial  # a subject brings a salt
        assert slate_size(both, len(items)) == slate_size(slate, len(items)) == len(slate)
        assert shown_in(both[:4], len(items)) == len(items)
        assert trial_of(slate) is NOTHING
    assert unpack_items(attach(alone, trial), len(items)) == tuple(items)
    assert names_in(attach(request, trial), len(items), ()) == names


def test_a_trial_that_was_cut_is_not_a_slate():
    both = attach(np.zeros(2, "<i4").tobytes(), Trial("someone"))
    assert slate_size(both[:3] + both[3:4] + b"\xff\xff\xff\xff", 2) == -1
    with pytest.raises(ValueError, match="longer than the whole"):
        bare(both[:4] + b"\xff\xff\xff\xff")


@pytest.mark.parametrize("algorithm", KINDS)
def test_shadow_shows_the_baseline_and_says_what_the_ranker_would_show(http, server, algorithm):
    made(http, algorithm, rollout={"mode": "shadow"})
    shown = rank(http, slate="one", subject="anna")
    assert shown["items"] == BASELINE[:2]
    assert shown["arm"] == "baseline"
    assert len(set(shown["would_show"])) == 2
    again = rank(http, slate="one")
    assert {**again, "version": shown["version"]} == shown  # the log has it; the version is that of the answer
    assert http.post("/v1/feedback", json=[{"slate": "one", "clicks": [1]}]).json()[0]["status"] == "learned"
    until(lambda: http.get("/v1/rankers/shop/experiment").json()["baseline"]["slates"] == 1)
    seen = http.get("/v1/rankers/shop/experiment").json()
    assert (seen["mode"], seen["baseline"]["clicks"], seen["ranker"]["slates"], seen["verdict"]) == (
        "shadow",
        1,
        0,
        "undecided",
    )
    assert mode(http, mode="full")["mode"] == "full"
    assert "arm" not in http.post("/v1/rankers/shop/rank", json={"subject": "anna"}).json()
    sound(server.service, "shop")


@pytest.mark.parametrize("algorithm", KINDS)
def test_a_share_of_the_subjects_gets_the_ranker(http, server, algorithm):
    made(http, algorithm)
    assert mode(http, mode="share", share=0.5)["share"] == 0.5
    for visit in range(2):
        for n in range(20):
            shown = rank(http, subject=f"visitor-{n}", slate=f"{visit}/{n}")
            assert shown["arm"] == rr.rollout.arm_of(f"visitor-{n}", 0.5, "shop")
            assert (shown["items"] == BASELINE[:2]) or shown["arm"] == "ranker"
            assert "would_show" not in shown
            clicks = [0] if (shown["arm"] == "ranker") == (visit == 0) else []
            http.post("/v1/feedback", json=[{"slate": f"{visit}/{n}", "clicks": clicks}])
    assert rank(http, slate="nobody")["arm"] == rr.rollout.arm_of("nobody", 0.5, "shop")
    until(lambda: server.service.lag() == 0)
    seen = http.get("/v1/rankers/shop/experiment").json()
    assert seen["baseline"]["slates"] + seen["ranker"]["slates"] == 20  # each visitor once, with the first visit
    assert seen["waiting"] == 1  # nobody's
    assert (seen["baseline"]["mean"], seen["ranker"]["mean"]) == (0, 1)
    assert seen["low"] < seen["difference"] == 1 < seen["high"]
    assert [moment["slates"] for moment in seen["history"]] == [16]
    sound(server.service, "shop")
    mode(http, share=0.6)  # another comparison
    assert http.get("/v1/rankers/shop/experiment").json()["baseline"]["slates"] == 0


@pytest.mark.parametrize("algorithm", KINDS)
def test_interleaved_slates_are_credited_to_whoever_contributed_the_item(http, server, algorithm):
    made(http, algorithm, rollout={"mode": "interleave"})
    for n in range(200):
        shown = rank(http, slate=f"s{n}")
        if shown["arm"] == "baseline":
            break
        assert shown["arm"] == "interleaved"
        clicked = [k for k, item in enumerate(shown["items"]) if item in BASELINE[:2]]
        http.post("/v1/feedback", json=[{"slate": f"s{n}", "clicks": clicked[:1]}])
    until(lambda: http.get("/v1/rankers/shop/experiment").json()["stopped"] is not None)
    seen = http.get("/v1/rankers/shop/experiment").json()
    assert seen["verdict"] == "baseline"
    assert seen["interleaved"]["credit"] < 0
    assert "users prefer the baseline" in seen["stopped"]
    assert rank(http)["arm"] == "baseline"
    sound(server.service, "shop")


REFUSED = {
    "missing": ({"baseline": None}, "baseline: missing; the ranker's mode is 'share'"),
    "short": ({"baseline": ["i1"]}, "baseline: 1 items; give at least 2"),
    "twice": ({"baseline": ["i1", "i1"]}, "baseline: 'i1' stands in it twice"),
    "unknown": ({"baseline": ["i1", "nothing"]}, "'nothing'"),
}


@pytest.mark.parametrize("algorithm", ["balanced", "anchored"])
@pytest.mark.parametrize("what", REFUSED)
def test_a_baseline_that_will_not_do(http, server, algorithm, what):
    made(http, algorithm, rollout={"mode": "share", "share": 0.0})
    asked, says = REFUSED[what]
    before = server.service.store.newest()
    answer = http.post("/v1/rankers/shop/rank", json={"subject": "anna", **asked})
    assert answer.status_code == 400
    assert says in answer.json()["detail"]
    assert server.service.store.newest() == before


@pytest.mark.parametrize("algorithm", ["balanced", "anchored"])
def test_a_baseline_is_checked_alike_in_both_arms(http, algorithm):
    """Otherwise only one arm would lose the visits whose baseline has an unknown item."""
    made(http, algorithm, rollout={"mode": "share", "share": 0.5})
    asked = [{"subject": f"visitor-{n}", "baseline": ["nothing", "i0", "i1"]} for n in range(20)]
    answers = [http.post("/v1/rankers/shop/rank", json=one) for one in asked]
    assert {answer.status_code for answer in answers} == {400}
    assert {answer.json()["detail"] for answer in answers} == {
        "baseline: 'nothing' is not among the items that can be shown here; leave it out"
    }


@pytest.mark.parametrize("change", [{"mode": "shadow"}, {"mode": "share", "share": 0.5}, {"mode": "interleave"}])
def test_rules_hold_whoever_ranks(http, server, change):
    made(http, "anchored", rollout=change)
    assert http.put("/v1/rankers/shop/rules", json={"exclude": ["i4"], "pin": {"1": "i7"}}).status_code == 200
    arms = set()
    for n in range(30):
        shown = rank(http, subject=f"visitor-{n}", slate=f"s{n}", exclude=["i6"], candidates=[*NAMES[:7], "i7"])
        assert shown["items"][1] == "i7"
        assert not {"i4", "i6"} & set(shown["items"])
        assert shown["arm"] != "baseline" or shown["items"] == ["i1", "i7"]
        arms.add(shown["arm"])
        http.post("/v1/feedback", json=[{"slate": f"s{n}", "clicks": [1]}])
    assert len(arms) == (2 if change["mode"] == "share" else 1)
    until(lambda: server.service.lag() == 0)
    seen = http.get("/v1/rankers/shop/experiment").json()
    assert not seen["interleaved"]["credit"]  # a pinned item is nobody's
    few = http.post("/v1/rankers/shop/rank", json={"baseline": ["i4", "i6"], "exclude": ["i6"]})
    assert few.status_code == 400
    assert "0 items that are neither excluded nor pinned; give at least 1" in few.json()["detail"]
    sound(server.service, "shop")


def test_a_mode_that_will_not_do(http):
    made(http, "balanced")
    for change in ({"mode": "some"}, {"share": 2}, {"margin": 1}, {"speed": 1}, {"alpha": 0}):
        assert http.patch("/v1/rankers/shop/experiment", json=change).status_code == 400
    assert http.patch("/v1/rankers/nobody/experiment", json={"mode": "full"}).status_code == 404
    assert http.get("/v1/rankers/shop/experiment").json()["version"] == 0
    assert http.post("/v1/rankers/shop/experiment/release").json()["version"] == 0  # nothing to release


def test_candidates_of_a_request_and_its_baseline(http, server):
    made(http, "anchored", rollout={"mode": "shadow"})
    shown = rank(http, candidates=["i1", "i2", "i3"], baseline=["i3", "i1"], slate="one", positions=1)
    assert shown["items"] == ["i3"]
    assert set(shown["would_show"]) < {"i1", "i2", "i3"}
    answer = http.post("/v1/rankers/shop/rank", json={"candidates": ["i1", "i2"], "baseline": ["i3", "i1"]})
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("baseline: ")
    http.post("/v1/feedback", json=[{"slate": "one", "clicks": [0]}])
    sound(server.service, "shop")


def quiet(address: str, **settings) -> Service:
    return Service(open_store(address), seed=0, start=False, settings=Settings(**settings))


def answer(service: Service, name: str, n: int, clicks) -> str:
    shown = service.rank(name, f"s{n}", asked=Asked(baseline=BASELINE, subject=f"visitor-{n}"))
    service.feedback([Report(f"s{n}", clicks(shown.arm), True)])
    return shown.arm


def test_any_change_releases_the_brake(tmp_path):
    service = quiet(f"sqlite:///{tmp_path}/x.db")
    service.create("shop", RankerSpec(positions=2, rollout=RolloutSettings(mode="share", share=0.5)), CATALOGUE)
    hosted = service.hosted("shop")
    assert service._change(hosted, Kind.ROLLOUT, turned(hosted.mode.settings, "worse"), hosted.changed)
    service.step()
    assert service.experiment("shop")["stopped"] == "worse"
    changed = service.set_rollout("shop", lambda known: msgspec.structs.replace(known.settings, alpha=0.01))
    assert (changed.stopped, changed.settings.mode) == (None, "share")
    assert service.experiment("shop")["stopped"] is None
    sound(service, "shop")
    service.close()


def test_the_brake_stops_a_worse_ranker_and_stays_until_it_is_released(tmp_path):
    address = f"sqlite:///{tmp_path}/x.db"
    service = quiet(address)
    service.create("shop", RankerSpec(positions=2, rollout=RolloutSettings(mode="share", share=0.5)), CATALOGUE)
    worse = lambda arm: (0,) if arm == "baseline" else ()  # noqa: E731
    arms = []
    while service.experiment("shop")["stopped"] is None:
        arms.append(answer(service, "shop", len(arms), worse))
        assert len(arms) < 300
        service.step()
    assert arms.count("ranker") > 10
    why = service.experiment("shop")["stopped"]
    assert "more than 5 % fewer" in why
    assert service.experiment("shop")["verdict"] == "baseline"
    assert {answer(service, "shop", n, worse) for n in range(300, 340)} == {"baseline"}
    service.step()
    assert service.experiment("shop")["ranker"]["slates"] == arms.count("ranker")  # the evidence stays as it was
    service.close()
    service = quiet(address)  # from its snapshot
    assert service.experiment("shop")["stopped"] == why
    assert service.rank("shop", asked=Asked(baseline=BASELINE)).arm == "baseline"
    sound(service, "shop")
    assert service.set_rollout("shop", lambda known: known.settings).stopped == why  # nothing new releases nothing
    assert service.release("shop").stopped is None
    assert {answer(service, "shop", n, lambda arm: (0,)) for n in range(400, 440)} == {"baseline", "ranker"}
    service.step()
    seen = service.experiment("shop")
    assert (seen["stopped"], seen["baseline"]["slates"] + seen["ranker"]["slates"]) == (None, 40)
    kinds = [event.kind for event in service.store.events(0, 10**6)]
    assert kinds.count(Kind.ROLLOUT) == 2  # the stop and the release
    sound(service, "shop")
    service.close()


def test_a_ramp_grows_by_events_and_every_slate_is_in_the_arm_of_its_share(tmp_path):
    """As good as the baseline: 20 %, 40 %, and 50 %; each step is an event, with a comparison of its own."""
    address = f"sqlite:///{tmp_path}/x.db"
    service = quiet(address)
    settings = RolloutSettings(mode="share", share=0.5, budget=0.2, margin=0.5)
    service.create("shop", RankerSpec(positions=2, rollout=settings), CATALOGUE)
    shares, n = [], 0
    while n < 3_000 and service.experiment("shop")["share_now"] < 0.5:
        now = service.experiment("shop")["share_now"]
        if now not in shares:
            shares.append(now)
            assert service.experiment("shop")["baseline"]["slates"] == 0
            service.close()
            service = quiet(address)
        for _ in range(20):
            n += 1
            assert answer(service, "shop", n, lambda arm: (0,)) == rr.rollout.arm_of(f"visitor-{n}", now, "shop")
        service.step()
        service.step()  # what the first has decided
    seen = service.experiment("shop")
    assert (shares, seen["share_now"], seen["budget"], seen["stopped"]) == ([0.2, 0.4], 0.5, 0.2, None)
    turns = [event for event in service.store.events(0, 10**6) if event.kind == Kind.ROLLOUT]
    assert [Rollout(settings).after([event]).step for event in turns] == [1, 2]
    sound(service, "shop")
    worse = lambda arm: (0,) if arm == "baseline" else ()  # noqa: E731
    while service.experiment("shop")["stopped"] is None:
        n += 1
        answer(service, "shop", n, worse)
        assert n < 3_500
        service.step()
    assert f"at alpha = {0.05 / 3:g}" in service.experiment("shop")["stopped"]
    released = service.release("shop")
    assert (released.share, released.step, released.next_share) == (0.2, 0, 0.4)  # from the beginning
    sound(service, "shop")
    service.close()


def test_events_and_snapshots_without_a_ramp_are_as_they_were_before_there_were_ramps():
    settings = RolloutSettings(mode="share", share=0.5)
    assert "budget" not in msgspec.to_builtins(settings)
    assert LoggedSpec.of(RankerSpec(positions=2, rollout=settings)).pack().count(b"budget") == 0
    experiment = Experiment(2, settings)
    experiment.apply(events_of(2, 3, "ranker", b"\x01"))
    packed = experiment.pack()
    assert packed[0][1:] == [None, 0, 0]
    assert Experiment(2, RolloutSettings(mode="share", share=0.5, budget=0.1)).rollout.share == 0.1


def test_servers_on_one_database_agree_on_the_mode_at_once(database):
    one, other = (Service(open_store(database), seed=n, settings=Settings(poll=0.01)) for n in range(2))
    try:
        for algorithm in ("balanced", "anchored"):
            one.create(algorithm, RankerSpec(algorithm=algorithm, positions=2), CATALOGUE)
            until(lambda algorithm=algorithm: other.registry.find(algorithm) is not None)
            assert other.rank(algorithm).arm == ""
            for settings in (RolloutSettings(mode="shadow"), RolloutSettings(mode="share", share=0.5)):
                one.set_rollout(algorithm, lambda _, settings=settings: settings)
                for service in (one, other):  # the very next slates, on both
                    for n in range(10):
                        shown = service.rank(algorithm, asked=Asked(baseline=BASELINE, subject=f"v{n}"))
                        arm = rr.rollout.arm_of(f"v{n}", 0.5, algorithm) if settings.mode == "share" else "baseline"
                        assert shown.arm == arm
            with pytest.raises(ValueError, match="baseline: missing"):
                other.rank(algorithm, asked=Asked(subject="v0"))
            other.set_rollout(algorithm, lambda _: RolloutSettings())
            assert one.rank(algorithm).arm == ""
        until(lambda: one.lag() == 0 or other.lag() == 0)
        learning = one if one.learner.learning else other
        for algorithm in ("balanced", "anchored"):
            sound(learning, algorithm)
    finally:
        one.close()
        other.close()


def events_of(positions: int, count: int, arm: str, clicks: bytes, credit: list | None = None) -> list:
    from recurrank.serving.events import Event

    slate = attach(np.arange(positions, dtype="<i4").tobytes(), Trial("x", arm, credit=credit))
    served = [Event(seq, 1, int(Kind.SERVED), 0, b"", slate, 0.0) for seq in range(1, count + 1)]
    return served + [Event(count + seq, 1, int(Kind.LEARNED), seq, clicks, slate, 0.0) for seq in range(1, count + 1)]


@pytest.mark.parametrize(("clicks", "credit"), [(0b0001, 0.5), (0b0101, 1.0), (0b1111, 0.0), (0b1010, -1.0), (0b0000, 0.0)])
def test_the_credit_of_a_slate_is_its_difference_of_clicks_over_the_largest_one(clicks, credit):
    experiment = Experiment(4, RolloutSettings(mode="interleave"))
    experiment.apply(events_of(4, 1, "interleaved", bytes([clicks]), [1, 0, 1, 0]))
    assert (experiment.preference.sessions, experiment.preference.mean) == (1, credit)


def test_moments_of_a_comparison_take_bounded_memory_and_come_back():
    experiment = Experiment(2, RolloutSettings(mode="share"))
    experiment.apply(events_of(2, 5_000, "ranker", b"\x01"))
    assert 32 <= len(experiment.moments) <= 64
    assert [one.slates for one in experiment.moments] == [128 * n for n in range(1, len(experiment.moments) + 1)]
    again = Experiment(2, RolloutSettings(mode="share"))
    again.unpack(experiment.pack())
    assert again.pack() == experiment.pack()
    assert again.both == experiment.both
    assert Experiment(2).pack() == []


ANY_ORDER = {name for name, kind in registered().items() if kind.learns_any_order}


def test_only_rankers_that_try_few_items_beside_the_best_order_learn_from_orders_that_others_chose():
    """Optimists would fill their next slates with what the baseline did not show (docs/rollout.md)."""
    assert {"anchored", "grab", "pbm-pie", "pie"} == ANY_ORDER


@pytest.mark.parametrize("algorithm", ["balanced", "toprank", "cascade-klucb", "linucb", "pbm-ucb", "pbm-pie", "club-cascade"])
def test_only_these_rankers_learn_from_the_baseline(algorithm, tmp_path):
    service = quiet(f"sqlite:///{tmp_path}/x.db")
    options = {"examination": [1.0, 0.5]} if algorithm.startswith("pbm") else {}
    spec = RankerSpec(algorithm=algorithm, positions=2, options=options, rollout=RolloutSettings(mode="shadow"))
    service.create("shop", spec, CATALOGUE)
    for n in range(30):
        answer(service, "shop", n, lambda arm: (1,))
    service.rank("shop", "silent", asked=Asked(baseline=BASELINE))
    service.step()
    fold = service.hosted("shop").fold
    untouched = new_fold(spec, CATALOGUE).ranker.save() == fold.ranker.save()
    changed = rr.load(fold.ranker.save(), CATALOGUE)
    changed.served = 0
    same = changed.save() == new_fold(spec, CATALOGUE).ranker.save()
    assert (untouched or same) == (algorithm not in ANY_ORDER)
    assert fold.counts == {"served": 31, "learned": 30, "dropped": 0, "clicks": 30}
    sound(service, "shop")
    service.close()


def test_after_a_shadow_estimates_are_as_frequent_as_after_a_start(tmp_path):
    """A change of mode is an event, so that a replay and a snapshot agree on when estimates are made."""
    address = f"sqlite:///{tmp_path}/x.db"
    service = quiet(address)
    spec = RankerSpec(algorithm="anchored", positions=2, rollout=RolloutSettings(mode="shadow"))
    service.create("shop", spec, CATALOGUE)
    answered = 0

    def due() -> int:
        """Answers until the next estimate."""
        clock = service.hosted("shop").fold.ranker.state.clock
        return int(clock[1] - clock[0])

    for answered in range(600):  # the baseline's
        answer(service, "shop", answered, lambda arm: (1,))
    service.step()
    ranker = service.hosted("shop").fold.ranker
    assert ranker.state.clock[1] - ranker.state.clock[4] > 8  # between two estimates
    service.set_rollout("shop", lambda _: RolloutSettings(mode="share", share=1.0))
    service.step()
    assert due() <= 8
    for n in range(answered + 1, answered + 40):
        answer(service, "shop", n, lambda arm: (0,))
        service.step()
        assert due() <= 8
    sound(service, "shop")
    service.close()
    service = quiet(address)
    assert due() <= 8
    sound(service, "shop")
    service.close()


def test_a_server_is_started_again_between_assignments(tmp_path):
    address, arms = f"sqlite:///{tmp_path}/x.db", []
    for start in range(3):
        service = quiet(address)
        service.create("shop", RankerSpec(positions=2, rollout=RolloutSettings(mode="share", share=0.3)), CATALOGUE)
        arms.append([service.rank("shop", asked=Asked(baseline=BASELINE, subject=f"v{n}")).arm for n in range(50)])
        if start == 1:
            service.step()
        service.close()
    assert arms[0] == arms[1] == arms[2]
    assert 5 < arms[0].count("ranker") < 25


@pytest.mark.parametrize("algorithm", KINDS)
def test_what_was_never_on_the_screen_is_not_learned(http, server, algorithm):
    made(http, algorithm, positions=4)
    for n in range(6):
        shown = http.post("/v1/rankers/shop/rank", json={"slate": f"s{n}"}).json()
        assert len(shown["items"]) == 4
    reports = [
        {"slate": "s0", "clicks": [0], "seen": [0, 1]},
        {"slate": "s1", "clicks": [], "seen": [0], "final": False},
        {"slate": "s1", "clicks": [], "seen": [1]},
        {"slate": "s2", "clicks": [1]},
        {"slate": "s3", "clicks": [], "seen": []},
        {"slate": "s4", "clicks": [3], "seen": [0]},
        {"slate": "s5", "clicks": [], "seen": [4]},
    ]
    told = [one["status"] for one in http.post("/v1/feedback", json=reports).json()]
    assert told == ["learned", "open", "learned", "learned", "learned", "learned", "invalid"]
    until(lambda: server.service.lag() == 0)
    hosted = server.service.hosted("shop")
    assert int(hosted.fold.shown.sum()) == 2 + 2 + 4 + 0 + 2  # of s4 the first position and the click
    assert hosted.fold.counts["clicks"] == 3
    sound(server.service, "shop")
