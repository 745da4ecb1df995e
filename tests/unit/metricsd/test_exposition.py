from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metricsd.exposition import Key, Series, Writer
from metricsd.family import Family
from metricsd.snapshot import PodOnGpu
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

ONE = Family("demo_bytes", "A demo.", labels=("pod", "gpu"))

# What a text in UTF-8 can hold, line breaks and quotes more often than chance has them.
TEXTS = st.text(st.one_of(st.sampled_from('\\"\n\r,{}= '), st.characters(exclude_categories=["Cs"])))
NUMBERS = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False))


def written(series: Series) -> str:
    return Writer().write(series).decode()


class Library(Collector):
    """The same family, as the library would have it."""

    def __init__(self, samples: Sequence[tuple[tuple[str, ...], float]]) -> None:
        self._samples = samples

    def collect(self) -> list[GaugeMetricFamily]:
        """Give it."""
        family = GaugeMetricFamily(ONE.name, ONE.help, labels=ONE.labels)
        for key, value in self._samples:
            family.add_metric(key, value)
        return [family]


class TestText:
    @pytest.mark.parametrize(
        ("family", "samples", "expected"),
        [
            pytest.param(ONE, [], "# HELP demo_bytes A demo.\n# TYPE demo_bytes gauge\n", id="no samples"),
            pytest.param(
                ONE,
                [(("a", 0), 8589934592), (("b", 1), 0.5)],
                "# HELP demo_bytes A demo.\n# TYPE demo_bytes gauge\n"
                'demo_bytes{pod="a",gpu="0"} 8589934592\ndemo_bytes{pod="b",gpu="1"} 0.5\n',
                id="whole numbers stay whole",
            ),
            pytest.param(
                Family("demo", "One\nand \\ two."),
                [((), 1)],
                "# HELP demo One\\nand \\\\ two.\n# TYPE demo gauge\ndemo 1\n",
                id="no labels, help with a line break",
            ),
            pytest.param(
                ONE,
                [(('a"b\\c\nd', 0), 1)],
                '# HELP demo_bytes A demo.\n# TYPE demo_bytes gauge\ndemo_bytes{pod="a\\"b\\\\c\\nd",gpu="0"} 1\n',
                id="what ends a label text or a line is escaped",
            ),
        ],
    )
    def test_family(self, family: Family, samples: list[tuple[Key, float]], expected: str) -> None:
        """A family is its head, and a line for each sample in the order given."""
        assert expected == written(Series(family, samples))

    @given(st.lists(st.tuples(st.tuples(TEXTS, TEXTS), NUMBERS)))
    def test_as_the_library(self, samples: list[tuple[tuple[str, str], float]]) -> None:
        """Whatever labels and values are, a reader finds what it would find in the library's text."""
        registry = CollectorRegistry()
        registry.register(Library(samples))

        found = list(text_string_to_metric_families(written(Series(ONE, samples))))

        assert list(text_string_to_metric_families(generate_latest(registry).decode())) == found


class TestMemory:
    def test_equal_keys_of_other_labels(self) -> None:
        """The same values under other labels are another text."""
        writer = Writer()
        texts = [writer.write(Series(Family(f"demo_{label}", "", labels=(label,)), [(("x",), 1)])) for label in "ab"]

        assert [b'demo_a{a="x"} 1', b'demo_b{b="x"} 1'] == [text.splitlines()[-1] for text in texts]

    @pytest.mark.parametrize(
        ("then", "is_written_anew"),
        [
            pytest.param([(("a", 0), 1), (("b", 1), 2)], False, id="same"),
            pytest.param([(("a", 0), 1), (("b", 1), 3)], True, id="another value"),
            pytest.param([(("b", 1), 2), (("a", 0), 1)], True, id="another order"),
            pytest.param([(("a", 0), 1)], True, id="one less"),
            pytest.param([(("a", 0), 1), (("b", 1), 2), (("c", 1), 2)], True, id="one more"),
            pytest.param([(("a", 0), 1), (("c", 1), 2)], True, id="another key"),
            pytest.param([], True, id="none"),
        ],
    )
    def test_a_page_later(self, then: list[tuple[Key, float]], *, is_written_anew: bool) -> None:
        """A family is what a new writer writes, and the very text of before where its samples are the same."""
        writer = Writer()
        before = writer.write(Series(ONE, [(("a", 0), 1), (("b", 1), 2)]))

        now = writer.write(Series(ONE, then))

        assert (written(Series(ONE, then)).encode(), is_written_anew) == (now, now is not before)

    def test_label_texts_outlast_a_page_that_was_the_same(self) -> None:
        """A key has the text that was made of it once, also after pages on which its family was not written."""
        writer = Writer()
        key = PodOnGpu("team", "pod", "uid", "GPU-1", 0)
        family = Family("demo", "", labels=("namespace", "pod", "pod_uuid", "gpu_uuid", "gpu"))
        for value in (1, 1, 1):
            writer.write(Series(family, [(key, value)]))
        (made,) = writer._written["demo"].texts.values()
        writer.write(Series(family, [(key, 2)]))

        assert made is writer._written["demo"].texts[key]

    def test_label_texts_outlast_another_family_with_other_keys(self) -> None:
        """A family has its own texts, though one with the same labels and other keys was written after it."""
        writer, other = Writer(), attrs.evolve(ONE, name="other")
        writer.write(Series(ONE, [(("a", 0), 1)]))
        (made,) = writer._written[ONE.name].texts.values()
        writer.write(Series(other, [(("b", 0), 1)]))
        writer.write(Series(ONE, [(("a", 0), 2)]))

        assert made is writer._written[ONE.name].texts["a", 0]

    def test_what_is_gone_is_forgotten(self) -> None:
        """Samples and label texts of containers that are gone do not pile up."""
        writer = Writer()
        for number in range(100):
            writer.write(Series(ONE, [((str(number), 0), 1)]))

        (kept,) = writer._written.values()
        assert ([(("99", 0), 1)], [("99", 0)]) == (kept.samples, list(kept.texts))
        assert [("99", 0)] == list(writer._texts[ONE.labels])
