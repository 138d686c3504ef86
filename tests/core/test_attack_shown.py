"""How an attack shows itself: in the terminal as what builds it again, in a notebook as a table."""

from __future__ import annotations

import unmask


def test_the_text_is_python_that_builds_it_again() -> None:
    attack = unmask.attack(
        "pgd",
        steps=3,
        gradient={"use": "finite-difference", "group": 2},
        max_queries=9,
        targeted=True,
        target=1,
    )
    text = repr(attack)
    assert text.startswith("unmask.attack('pgd', steps=3, restarts=1, ")
    again = eval(text, {"unmask": unmask})
    assert again.table() == attack.table()
    assert "gradient='autograd'" in repr(unmask.attack("fgsm"))


def test_one_that_nobody_registered_names_its_object() -> None:
    from unmask.components import as_configured

    def mine(target, images, labels, budget, random):
        return images

    assert repr(as_configured(mine)).startswith("<attack ")
    assert "mine" in repr(as_configured(mine))


def test_notebooks_show_a_table_without_markup_of_others() -> None:
    shown = unmask.attack("pgd", steps=3)._repr_html_()
    assert shown.startswith("<b>pgd</b>")
    assert "linf, l2, l1" in shown
    assert "arXiv:1706.06083" in shown
    for option, value in (("steps", "3"), ("gradient", "autograd"), ("random_start", "true")):
        row = shown[shown.index(f">{option}<") :]
        assert f">{value}<" in row[: row.index("</tr>")]

    def odd(target, images, labels, budget, random):
        """<script>1 < 2</script>"""
        return images

    from unmask.components import as_configured

    assert "<script>" not in as_configured(odd)._repr_html_()
