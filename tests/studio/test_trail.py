from mtgcn.studio.trail import Trail


def test_forward_takes_the_first_of_the_queue_that_is_neither_shown_nor_done():
    trail = Trail()
    assert trail.node is None
    assert trail.back() is None
    assert trail.forward(["a", "b", "c"], done={"a"}) == "b"
    assert trail.forward(["b", "c"], done=()) == "c"
    assert trail.forward(["b", "c"]) is None
    assert trail.node == "c"


def test_back_and_forth_is_the_way_that_was_gone():
    trail = Trail()
    for _ in range(3):
        trail.forward("abc")
    assert [trail.back(), trail.back(), trail.back()] == ["b", "a", "a"]
    assert [trail.forward("xyz"), trail.forward("xyz"), trail.forward("xyz")] == ["b", "c", "x"]


def test_a_node_that_was_chosen_comes_last_and_the_way_back_is_kept():
    trail = Trail()
    trail.forward("ab")
    trail.forward("ab")
    trail.back()
    trail.go("z")
    trail.go("z")
    assert trail.node == "z"
    assert [trail.back(), trail.back()] == ["b", "a"]
    trail.forget()
    assert trail.node is None
    assert trail.forward("ab") == "a"
