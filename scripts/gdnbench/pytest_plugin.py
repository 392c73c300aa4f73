"""A test for each case of a suite, in pytest. It comes with the wheel; elsewhere `-p gdnbench.pytest_plugin` names it.

    import pytest

    @pytest.mark.gdnbench(kernel=my_kernel, suite="quick", honours=["h0", "norm"])
    def test_my_kernel(gdnbench_verdict):
        pass                                    # the verdict has been looked at; more may be asked of it here

The mark takes the arguments of gdnbench.judge(), with `kernel` for the function. A case that fails fails its test before
the body runs, with the one line that says why; what the kernel does not do is skipped; a known limit is an expected
failure with its cause, and one that is gone a failure."""
import pytest

from . import judging

FIXTURE = "gdnbench_verdict"


def pytest_configure(config):
    config.addinivalue_line("markers", "gdnbench(kernel, suite='quick', ..): a test for each case of a suite, with the "
                                       "arguments of gdnbench.judge()")


def pytest_generate_tests(metafunc):
    if FIXTURE not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("gdnbench")
    if mark is None or mark.args or "kernel" not in mark.kwargs:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: {FIXTURE} expects @pytest.mark.gdnbench(kernel=..), with "
                                "the arguments of gdnbench.judge() by name")
    given = dict(mark.kwargs)
    kernel, problems = given.pop("kernel"), given.pop("problems", None)
    suite, operation = given.pop("suite", "quick"), given.pop("operation", "gated_delta")
    chosen = judging.chosen_cases(suite, operation, problems)
    judge = judging.Judging(kernel, **given)
    metafunc.parametrize(FIXTURE, [(judge, each) for each in chosen], indirect=True,
                         ids=[each.problem for each in chosen])


@pytest.fixture
def gdnbench_verdict(request):
    """The verdict on one case of the suite that the mark names."""
    judge, of = request.param
    return judge.verdict(of)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    verdict = getattr(item, "funcargs", {}).get(FIXTURE)
    if verdict is None:
        return
    if verdict.verdict == "unsupported":
        pytest.skip(verdict.reason)
    if verdict.verdict == "known limit":
        pytest.xfail(verdict.reason)
    if not verdict.ok:
        pytest.fail(str(verdict), pytrace=False)
