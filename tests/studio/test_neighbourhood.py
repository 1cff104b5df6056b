import pytest

from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions
from mtgcn.studio.answers import ProjectAnswers
from mtgcn.studio.lesson import Recipe, teach
from mtgcn.studio.neighbourhood import neighbourhood
from mtgcn.studio.project import Project

pytestmark = pytest.mark.filterwarnings("ignore::mtgcn.uncertainty.warnings.FitWarning")


@pytest.fixture
def star(tmp_path):
    """a in the middle of b, c and d, with b and c joined too; e hangs on d."""
    (tmp_path / "edges.csv").write_text(
        "source,target,weight\na,b,1\na,c,3\na,d,2\nb,c,1\nd,e,1\na,a,9\n", encoding="utf-8"
    )
    project = Project.open(tmp_path / "project")
    project.load_files(TableOptions(edges=tmp_path / "edges.csv"))
    project.add_class("x")
    project.add_class("y")
    project.label("b", "x")
    project.label("e", "y")
    return project


def test_neighbours_by_weight_and_the_edges_among_them(star):
    around = neighbourhood(star, "a", None)
    assert [(one.node, one.weight) for one in around.neighbours] == [("c", 3), ("d", 2), ("b", 1)]
    assert {(frozenset(edge[:2]), edge[2]) for edge in around.edges} == {
        (frozenset("ac"), 3),
        (frozenset("ad"), 2),
        (frozenset("ab"), 1),
        (frozenset("bc"), 1),
    }
    assert len(around.edges) == 4
    assert [one.given for one in around.neighbours] == [None, None, "x"]
    assert around.middle.predicted is None
    assert around.left_out == 0


def test_only_so_many_and_how_many_more_there_are(star):
    around = neighbourhood(star, "a", None, most=1)
    assert [one.node for one in around.neighbours] == ["c"]
    assert around.left_out == 2
    assert len(around.edges) == 1


def test_what_is_believed_of_them_and_who_taught_since_when(star):
    teach(star, Recipe(settings=["infomax_epochs=2"], folds=0))
    answers = ProjectAnswers.read(star)
    around = neighbourhood(star, "a", answers)
    places = star.loaded.place
    for one in (around.middle, *around.neighbours):
        assert one.predicted == answers.model.transduction_[places[one.node]]
        taught = answers.model.labeled_iter_[places[one.node]]
        assert one.taught_at == (taught if taught > 0 else None)
    assert around.neighbours[-1].taught_at is None  # b has a label of its own


def test_a_node_that_is_not_there(star):
    with pytest.raises(InputError, match="no node is called 'z'"):
        neighbourhood(star, "z", None)
