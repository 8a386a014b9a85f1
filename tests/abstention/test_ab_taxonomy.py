"""Lists of taxa: what they hold, how names are found in them, renames, splits and lumps, and files as people have them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab.abstention.names import common_key, fold
from birdlab.abstention.taxonomy import RESOLVED_SCHEMA, TAXA_SCHEMA, Taxonomy, alignment
from birdlab.errors import BirdlabError, DataError, ManifestError, ParameterError
from birdlab.readers.taxonomy import PINNED, read_synonyms, read_taxonomy

needs_lists = pytest.mark.skipif(importlib.util.find_spec("birdnames") is None, reason="needs the package birdnames")
_LISTS: dict[str, Taxonomy] = {}


def pinned(name: str) -> Taxonomy:
    """A pinned list, read once."""
    if importlib.util.find_spec("birdnames") is None:
        pytest.skip("needs the package birdnames")
    if name not in _LISTS:
        _LISTS[name] = read_taxonomy(name)
    return _LISTS[name]


def found(taxonomy: Taxonomy, name: str | None) -> tuple:
    """taxon_id, rank, how, candidates, flag of one name."""
    return taxonomy.resolve([name]).row(0)[1:]


def codes(problem: pytest.ExceptionInfo[BirdlabError]) -> list[tuple[str, int | None]]:
    """Code and line of every problem."""
    return [(p.code, p.line) for p in problem.value.problems]


def save(path: Path, text: str, encoding: str = "utf-8") -> Path:
    """A file of text."""
    path.write_bytes(text.encode(encoding))
    return path


# ------------------------------------------------------------------------------------------------- pinned lists


@pytest.mark.parametrize(
    ("name", "species", "genera", "monotypic"),
    [("ebird_2021", 10824, 2333, 896), ("ebird_2024", 11145, 2374, 892), ("avilist_2025", 11131, 2376, 890)],
)
def test_pinned_lists_hold_what_their_makers_say(name, species, genera, monotypic):
    tree = pinned(name)
    assert len(tree.species) == species
    assert len(tree.genus_sizes) == genera and sum(tree.genus_sizes.values()) == species
    assert sum(n == 1 for n in tree.genus_sizes.values()) == monotypic
    assert tree.year == int(name[-4:]) and "birdnames" in tree.version
    assert tree.sha256 and len(tree.sha256) == 64
    assert dict(tree.taxa.schema) == {k: v() if isinstance(v, type) else v for k, v in TAXA_SCHEMA.items()}


def test_every_taxon_hangs_below_the_class():
    tree = pinned("ebird_2024")
    assert tree.taxa["taxon_id"].is_unique().all()
    order = {rank: i for i, rank in enumerate(("class", "order", "family", "genus", "species"))}
    for taxon, parent in tree.parent_of.items():
        if parent is None:
            assert taxon == "Aves"
        else:
            assert order[tree.rank_of[parent]] < order[tree.rank_of[taxon]]
    assert set(tree.ancestors("class").values()) == {"Aves"}
    assert tree.ancestors("family")["Corvus corax"] == "Corvidae"
    assert tree.ancestors("order")["Corvus corax"] == "Passeriformes"
    assert tree.ancestors("species")["Corvus corax"] == "Corvus corax"
    assert tree.genus_of["Turdus migratorius"] == "Turdus"
    with pytest.raises(ParameterError, match="tribe"):
        tree.ancestors("tribe")


def test_2021_against_2024_changes_as_counted():
    def table(name: str) -> pl.DataFrame:
        tree = pinned(name)
        rows = tree.taxa.filter(pl.col("rank") == "species").select("code", "taxon_id", "parent_id", "common_name")
        return rows

    old, new = table("ebird_2021"), table("ebird_2024")
    both = old.join(new, on="code", suffix="_new")
    assert both.filter(pl.col("taxon_id") != pl.col("taxon_id_new")).height == 477
    assert both.filter(pl.col("parent_id") != pl.col("parent_id_new")).height == 449
    assert both.filter(pl.col("common_name") != pl.col("common_name_new")).height == 304
    assert old.join(new, on="code", how="anti").height == 238
    assert new.join(old, on="code", how="anti").height == 559


def test_hash_is_checked():
    tree = pinned("ebird_2024")
    assert read_taxonomy("ebird_2024", sha256=tree.sha256.upper()).sha256 == tree.sha256
    with pytest.raises(ManifestError) as error:
        read_taxonomy("ebird_2024", sha256="0" * 64)
    assert error.value.exit_code == 3 and "pinned" in str(error.value)


def test_absent_package_says_what_to_do(monkeypatch):
    monkeypatch.setattr("birdlab.readers.taxonomy.importlib.util.find_spec", lambda name: None)
    with pytest.raises(DataError, match="pip install birdnames"):
        read_taxonomy("ebird_2024")


def test_unknown_source_names_the_lists(tmp_path):
    with pytest.raises(DataError, match="ebird_2021.*avilist_2025"):
        read_taxonomy("ebird_2019", base=tmp_path)


# ------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "taxon", "how"),
    [
        ("Turdus migratorius", "Turdus migratorius", "exact"),
        ("turdus_migratorius", "Turdus migratorius", "case"),
        ("TURDUS-MIGRATORIUS.", "Turdus migratorius", "case"),
        ("Turdus migratorius (Linnaeus, 1766)", "Turdus migratorius", "case"),
        ("Turdus migratorius Linnaeus, 1766", "Turdus migratorius", "case"),
        ("American Robin", "Turdus migratorius", "common"),
        ("american_robin", "Turdus migratorius", "common"),
        ("Turdus migratorius (American Robin)", "Turdus migratorius", "exact"),
        ("American Robin (Turdus migratorius)", "Turdus migratorius", "exact"),
        ("Grey Heron", "Ardea cinerea", "common"),
        ("GRAY HERON.", "Ardea cinerea", "common"),
        ("Cooper\u2019s hawk", "Astur cooperii", "common"),
        ("Coopers Hawk", "Astur cooperii", "common"),
        ("Eastern Wood Pewee", "Contopus virens", "common"),
        ("Tricoloured Heron", "Egretta tricolor", "common"),
        ("Ru\u0308ppell's Griffon", "Gyps rueppelli", "common"),
        ("Ruppells Griffon", "Gyps rueppelli", "common"),
        ("Accipiter cooperii", "Astur cooperii", "synonym"),
        ("accipiter_cooperii", "Astur cooperii", "synonym"),
        ("Dendroica coronata", "Setophaga coronata", "synonym"),
        ("Amazilia violiceps", "Ramosomyia violiceps", "synonym"),
        ("Leucolia violiceps", "Ramosomyia violiceps", "synonym"),
        ("Great Northern Diver", "Gavia immer", "synonym"),
        ("Setophaga coronata coronata", "Setophaga coronata", "trinomial"),
        ("Setophaga coronata ssp. auduboni", "Setophaga coronata", "trinomial"),
        ("Dendroica coronata coronata", "Setophaga coronata", "trinomial"),
        ("Setophaga coronata [coronata Group]", "Setophaga coronata", "trinomial"),
        ("Ardea herodias occidentalis (Great White Heron)", "Ardea herodias", "trinomial"),
        ("Dark-eyed Junco", "Junco hyemalis", "common"),
        ("Black-billed Cuckoo-Dove", "Macropygia nigrirostris", "common"),
    ],
)
def test_names_of_a_species(name, taxon, how):
    assert found(pinned("ebird_2024"), name)[:3] == (taxon, "species", how)


@pytest.mark.parametrize(
    ("name", "taxon", "rank", "how"),
    [
        ("Empidonax", "Empidonax", "genus", "genus"),
        ("Empidonax sp.", "Empidonax", "genus", "genus"),
        ("empidonax spp", "Empidonax", "genus", "genus"),
        ("Laridae", "Laridae", "family", "higher"),
        ("passeriformes", "Passeriformes", "order", "higher"),
        ("Aves", "Aves", "class", "higher"),
        ("Aechmophorus occidentalis/clarkii", "Aechmophorus", "genus", "slash"),
        ("Western/Clark's Grebe", "Aechmophorus", "genus", "slash"),
        ("Anas superciliosa \u00d7 platyrhynchos", "Anas", "genus", "hybrid"),
        ("Mallard x American Black Duck", "Anas", "genus", "hybrid"),
        ("Anhinga", "Anhinga anhinga", "species", "common"),
    ],
)
def test_names_above_and_between_species(name, taxon, rank, how):
    assert found(pinned("ebird_2024"), name)[:3] == (taxon, rank, how)


@pytest.mark.parametrize(
    "name",
    [
        None,
        "",
        "  ",
        "Robin",
        "crow",
        "background",
        "Empidonax trailii",
        "Calidris minutila",
        "x" * 5000,
        "/",
        "()",
        "(a)",
    ],
)
def test_what_is_only_similar_is_not_found(name):
    taxon, rank, how, candidates, _ = found(pinned("ebird_2024"), name)
    assert (taxon, rank, how, candidates) == (None, None, "none", [])


def test_why_nothing_was_found():
    tree = pinned("ebird_2024")
    assert found(tree, "")[-1] == "empty"
    assert found(tree, "Empidonax trailii")[-1] == "unknown_epithet"
    assert found(tree, "Corvus " + "x" * 400)[-1] == "too_long"


GULLS = ["Larus argentatus", "Larus smithsonianus", "Larus vegae", "Larus mongolicus"]


def test_herring_gull_before_and_after_the_split():
    assert found(pinned("ebird_2023"), "Herring Gull") == ("Larus argentatus", "species", "common", [], None)
    assert found(pinned("ebird_2024"), "Herring Gull") == ("Larus", "genus", "synonym", GULLS, "split")
    assert found(pinned("ebird_2023"), "Larus argentatus") == ("Larus argentatus", "species", "exact", [], None)
    assert found(pinned("ebird_2024"), "Larus argentatus") == ("Larus argentatus", "species", "exact", GULLS, "split")
    # The other way: a part of the split in a list from before it.
    assert found(pinned("ebird_2023"), "Larus smithsonianus")[::2] == ("Larus argentatus", "synonym", "before_split")
    assert found(pinned("ebird_2024"), "Larus argentatus smithsonianus")[::2] == (
        "Larus smithsonianus",
        "trinomial",
        "raised",
    )


def test_split_names_are_narrowed_by_the_english_name():
    tree = pinned("ebird_2024")
    assert found(tree, "Accipiter gentilis")[:3] == ("Astur", "genus", "synonym")
    assert found(tree, "Accipiter gentilis (American Goshawk)")[0] == "Astur atricapillus"
    assert found(tree, "Melanitta fusca (White-winged Scoter)")[0] == "Melanitta deglandi"
    assert found(tree, "Accipiter gentilis atricapillus")[0] == "Astur atricapillus"
    taxon, _, _, candidates, flag = found(tree, "Corvus corax (American Crow)")
    assert (taxon, candidates, flag) == ("Corvus corax", ["Corvus corax", "Corvus brachyrhynchos"], "parts_differ")


def test_split_over_two_genera_has_no_taxon(tmp_path):
    table = save(tmp_path / "s.csv", "old_name,new_names,kind\nBig Crow,Corvus corax|Pica pica,split\n")
    tree = read_taxonomy(save(tmp_path / "t.csv", "genus,species\nCorvus,corax\nPica,pica\n"), synonyms=table)
    assert found(tree, "big crow") == (None, None, "synonym", ["Corvus corax", "Pica pica"], "split")


def test_renames_and_lumps_hold_in_the_lists_that_know_them():
    assert found(pinned("ebird_2021"), "Accipiter cooperii")[::2] == ("Accipiter cooperii", "exact", None)
    assert found(pinned("ebird_2021"), "Astur cooperii")[::2] == ("Accipiter cooperii", "synonym", "reversed")
    assert found(pinned("ebird_2021"), "Amazilia violiceps")[0] == "Leucolia violiceps"
    assert found(pinned("avilist_2025"), "Picoides villosus")[0] == "Leuconotopicus villosus"
    for old in ("Acanthis hornemanni", "Hoary Redpoll", "Acanthis cabaret"):
        assert found(pinned("ebird_2024"), old)[::2] == ("Acanthis flammea", "synonym", "lump")
    assert found(pinned("ebird_2021"), "Hoary Redpoll")[::2] == ("Acanthis hornemanni", "common", None)


def test_common_name_of_two_species_is_no_species(tmp_path):
    text = "genus,species,common_name\nCorvus,corax,Raven\nCorvus,albus,Raven\nPica,pica,Magpie\nGymnorhina,tibicen,Magpie\n"
    tree = read_taxonomy(save(tmp_path / "t.csv", text))
    assert found(tree, "raven") == ("Corvus", "genus", "common", ["Corvus corax", "Corvus albus"], "ambiguous")
    assert found(tree, "magpie") == (None, None, "common", ["Pica pica", "Gymnorhina tibicen"], "ambiguous")


def test_resolve_keeps_order():
    tree = pinned("ebird_2024")
    names = [*reversed(tree.species), None, "nobody", *tree.species[:3]]
    table = tree.resolve(names)
    assert table["name"].to_list() == names
    assert table["taxon_id"].to_list() == [*reversed(tree.species), None, None, *tree.species[:3]]
    assert table.schema == pl.Schema(RESOLVED_SCHEMA)
    assert tree.resolve([]).schema == pl.Schema(RESOLVED_SCHEMA)


@needs_lists
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_spelling_of_every_species_is_found(data):
    tree = pinned("ebird_2024")
    species = data.draw(st.sampled_from(tree.species))
    change = data.draw(
        st.sampled_from([str.upper, str.lower, lambda s: s.replace(" ", "_"), lambda s: f" {s.replace(' ', '  ')} "])
    )
    assert tree.resolve_one(change(species)).taxon_id == species
    assert tree.resolve_one(f"{species} ({tree.common_of[species]})").taxon_id == species
    assert tree.resolve_one(tree.common_of[species].upper().replace("-", " ")).taxon_id == species


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_answered_and_folding_is_stable(text):
    assert fold(fold(text)) == fold(text)
    assert common_key(common_key(text)) == common_key(text)
    match = Taxonomy.from_names(["Corvus corax"]).resolve_one(text)
    assert match.taxon_id in (None, "Corvus corax", "Corvus", "Aves")


def test_pathological_names_are_not_found():
    tree = pinned("ebird_2024")
    table = tree.resolve([" " * 10**6 + "x", "(" * 10**5, "a/" * 10**5, "a x " * 75, "(" * 290, " \t" * 140 + "x"])
    assert table["how"].to_list() == ["none"] * 6


# ------------------------------------------------------------------------------------------------- synonyms


def test_synonyms_agree_with_the_lists():
    """Checked against the lists themselves: a rename keeps its species code, new names exist, old and new exclude."""
    lists = {name: {t for t in pinned(name).species} for name in PINNED}
    code = {
        name: dict(pinned(name).taxa.filter(pl.col("rank") == "species").select("taxon_id", "code").iter_rows())
        for name in ("ebird_2021", "ebird_2024")
    }
    table = read_synonyms()
    assert 80 <= table.height <= 250 and table["old_name"].is_unique().all()
    for old, joined, kind, _, since, _ in table.iter_rows():
        new = joined.split("|")
        for name in new:
            assert any(name in known for known in lists.values()), (old, name)
        if kind != "split":
            assert not any(
                old in known and new[0] in known and int(n[-4:]) >= (since or 0) for n, known in lists.items()
            ), old
        if kind == "rename" and old in code["ebird_2021"] and new[0] in code["ebird_2024"]:
            assert code["ebird_2021"][old] == code["ebird_2024"][new[0]], old


def test_own_synonyms_come_before_the_carried_ones(tmp_path):
    table = save(tmp_path / "s.csv", "old_name;new_names;kind\nAccipiter cooperii;Astur bicolor;rename\n")
    tree = read_taxonomy("ebird_2024", synonyms=table)
    assert found(tree, "Accipiter cooperii")[0] == "Astur bicolor"
    assert found(tree, "Dendroica coronata")[0] == "Setophaga coronata"


def test_bad_synonyms_are_said_all_at_once(tmp_path):
    text = "old_name,new_names,kind,since\n,A b,rename,\nC d,E f|G h,rename,\nI j,K l,split,\nM n,O p,move,\nQ r,S t,lump,24\nU v,W x,lump,2024\n"
    with pytest.raises(DataError) as error:
        read_synonyms(save(tmp_path / "s.csv", text))
    assert codes(error) == [("bad_synonym", line) for line in (2, 3, 4, 5, 6)]
    with pytest.raises(DataError, match="kind"):
        read_synonyms(save(tmp_path / "s2.csv", "old_name,new_names\na,b\n"))


# ------------------------------------------------------------------------------------------------- users' files

EBIRD = """SCIENTIFIC_NAME,COMMON_NAME,SPECIES_CODE,CATEGORY,TAXON_ORDER,ORDER,FAMILY,REPORT_AS
Setophaga coronata,Yellow-rumped Warbler,yerwar,species,1,Passeriformes,Parulidae (New World Warblers),
Setophaga coronata coronata,Yellow-rumped Warbler (Myrtle),myrwar,issf,2,Passeriformes,Parulidae (New World Warblers),yerwar
Aechmophorus occidentalis,Western Grebe,wesgre,species,3,Podicipediformes,Podicipedidae,
Aechmophorus clarkii,Clark's Grebe,clagre,species,4,Podicipediformes,Podicipedidae,
Aechmophorus occidentalis/clarkii,Western/Clark's Grebe,y00001,slash,5,Podicipediformes,Podicipedidae,
Aechmophorus sp.,western grebe sp.,y00002,spuh,6,Podicipediformes,Podicipedidae,
Aechmophorus occidentalis x clarkii,Western x Clark's Grebe (hybrid),y00003,hybrid,7,Podicipediformes,Podicipedidae,
"""


def test_ebird_shape(tmp_path):
    tree = read_taxonomy(save(tmp_path / "ebird_2023_list.csv", EBIRD))
    assert tree.species == ["Setophaga coronata", "Aechmophorus occidentalis", "Aechmophorus clarkii"]
    assert tree.ancestors("family")["Setophaga coronata"] == "Parulidae"
    assert tree.year == 2023 and tree.taxa.filter(pl.col("code") == "clagre").height == 1
    assert found(tree, "Yellow-rumped Warbler (Myrtle)")[:3] == ("Setophaga coronata", "species", "trinomial")
    assert found(tree, "Western/Clark's Grebe")[:3] == ("Aechmophorus", "genus", "slash")
    assert found(tree, "western grebe sp.")[:3] == ("Aechmophorus", "genus", "genus")
    assert found(tree, "Western x Clark's Grebe (hybrid)")[2] == "hybrid"
    assert {n.code: n.n for n in tree.notices} == {
        "names_of_hybrid": 1,
        "names_of_slash": 1,
        "names_of_spuh": 1,
        "names_of_subspecies": 1,
        "genus_from_name": 3,
    }


INAT = """id,taxonID,kingdom,phylum,class,order,family,genus,specificEpithet,infraspecificEpithet,modified,scientificName,taxonRank
3,x,Animalia,Chordata,Aves,,,,,,,Aves,class
8010,x,Animalia,Chordata,Aves,Passeriformes,Corvidae,Corvus,corax,,,Corvus corax,species
8011,x,Animalia,Chordata,Aves,Passeriformes,Corvidae,,corone,,,Corvus corone,species
8012,x,Animalia,Chordata,Aves,Passeriformes,Corvidae,Corvus,corax,principalis,,Corvus corax principalis,subspecies
1,x,Animalia,Chordata,Mammalia,Carnivora,Felidae,Felis,catus,,,Felis catus,species
"""


def test_inaturalist_shape(tmp_path):
    names = "id,vernacularName,language\n8010,Common Raven,en\n8010,Kolkrabe,de\n8011,Carrion Crow,en\n1,Cat,en\n"
    path = save(tmp_path / "taxa.csv", INAT)
    tree = read_taxonomy("taxa.csv", vernacular=save(tmp_path / "names.csv", names), base=tmp_path)
    assert tree.genus_of == {"Corvus corax": "Corvus", "Corvus corone": "Corvus"}
    assert tree.common_of["Corvus corax"] == "Common Raven"
    assert found(tree, "Kolkrabe")[:3] == ("Corvus corax", "species", "common")
    assert found(tree, "Corvus corax principalis")[2] == "trinomial"
    counts = {(n.code, n.message.split(":")[0]): n.n for n in tree.notices}
    assert counts["rows_skipped", "rows of another class than Aves"] == 1
    assert counts["genus_from_name", "species without a genus"] == 1
    assert any(code == "names_of_other_taxa" for code, _ in counts)
    assert tree.version.startswith("sha256 ") and tree.year is None and path.name == "taxa.csv"


def test_avilist_shape(tmp_path):
    text = (
        "Sequence;Taxon_rank;Order;Family;Scientific_name;English_name_AviList\n1;order;Struthioniformes;;Struthioniformes;\n"
        "2;family;Struthioniformes;Struthionidae;Struthionidae;\n3;genus;Struthioniformes;Struthionidae;Struthio;\n"
        "4;species;Struthioniformes;Struthionidae;Struthio camelus;Common Ostrich\n"
        "5;subspecies;Struthioniformes;Struthionidae;Struthio camelus syriacus;\n"
    )
    tree = read_taxonomy(save(tmp_path / "a.csv", text))
    assert tree.taxa["taxon_id"].to_list() == [
        "Aves",
        "Struthioniformes",
        "Struthionidae",
        "Struthio",
        "Struthio camelus",
    ]
    assert found(tree, "Struthio camelus syriacus")[:3] == ("Struthio camelus", "species", "trinomial")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_encodings_and_delimiters(tmp_path, encoding, delimiter):
    rows = [
        ["Genus", "SPECIES", "Common Name"],
        ["Gyps", "rueppelli", "R\u00fcppell's Griffon"],
        ["Corvus", "corax", "Raven"],
    ]
    text = "\r\n".join(delimiter.join(row) for row in rows) + "\r\n\r\n"
    tree = read_taxonomy(save(tmp_path / "t.csv", text, encoding))
    assert tree.species == ["Gyps rueppelli", "Corvus corax"]
    assert found(tree, "Ruppell's griffon")[0] == "Gyps rueppelli"
    assert any(n.code == "latin_1" for n in tree.notices) == (encoding == "latin-1")


def test_order_without_family_and_family_without_order(tmp_path):
    text = "genus,species,family,order\nCorvus,corax,,Passeriformes\nPica,pica,Corvidae,\nGyps,fulvus,,\n"
    tree = read_taxonomy(save(tmp_path / "t.csv", text))
    assert tree.parent_of["Corvus"] == "Passeriformes" and tree.parent_of["Pica"] == "Corvidae"
    assert tree.parent_of["Corvidae"] == "Aves" and tree.parent_of["Gyps"] == "Aves"
    assert tree.ancestors("family") == {"Pica pica": "Corvidae"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [("empty_file", None)]),
        ("name_of_bird,colour\na,b\n", [("unknown_shape", 1)]),
        ("genus,species\n", [("no_species", None)]),
        ("genus,species\nCorvus,corax,extra\nPica\n", [("ragged_row", 2), ("ragged_row", 3)]),
        ('genus,species\nCorvus,"corax\n', [("bad_csv", 2)]),
        ("genus,species\nCorvus,co\0rax\n", [("binary", 2)]),
        ("genus,genus,species\nA,A,b\n", [("column_twice", 1)]),
        ("scientific_name\nCorvus\n\n", [("no_binomial", 2)]),
        ("scientific_name,x\nCorvus,1\n,2\n", [("no_binomial", 2), ("no_binomial", 3)]),
        ("scientific_name,genus\nA b,A\nA b,A\nA b,C\n", [("duplicate_species", 3), ("species_in_two_genera", 4)]),
        (
            "genus,species,family\nA,b,Fa\nA,c,Fb\nA,d,Fb\nA,e,Fc\n",
            [("genus_in_two_parents", 3), ("genus_in_two_parents", 5)],
        ),
        ("genus,species,family,order\nA,b,Fa,Oa\nC,d,Fa,Ob\n", [("family_in_two_parents", 3)]),
        ("genus,species,family\nA,b,A\n", [("name_at_two_ranks", 2)]),
    ],
)
def test_hostile_files_end_in_one_error(tmp_path, text, expected):
    with pytest.raises(DataError) as error:
        read_taxonomy(save(tmp_path / "t.csv", text))
    assert codes(error) == expected
    assert str(tmp_path) not in str(error.value) and "t.csv" in str(error.value)


def test_many_problems_are_counted(tmp_path):
    with pytest.raises(DataError) as error:
        read_taxonomy(save(tmp_path / "t.csv", "genus,species\n" + "A,b\n" * 100))
    assert len(error.value.problems) == 21 and "79 more" in str(error.value)


def test_folder_and_missing_file(tmp_path):
    for source in ("nothing.csv", "."):
        with pytest.raises(DataError, match="avilist_2025"):
            read_taxonomy(source, base=tmp_path)
    with pytest.raises(DataError, match="no such file"):
        read_synonyms("none.csv", base=tmp_path)


# ------------------------------------------------------------------------------------------------- made of names, subsets


def test_tree_from_names():
    tree = Taxonomy.from_names(["Corvus corax", "Pica pica", "Corvus  corax", "Corvus corone"])
    assert tree.species == ["Corvus corax", "Pica pica", "Corvus corone"]
    assert tree.genus_sizes == {"Corvus": 2, "Pica": 1} and tree.sha256 is None
    assert tree.ancestors("family") == {} and tree.parent_of["Pica"] == "Aves"
    with pytest.raises(DataError) as error:
        Taxonomy.from_names(["Corvus", "", "Pica pica"])
    assert [p.code for p in error.value.problems] == ["no_binomial", "no_binomial"]


def test_subset():
    tree = pinned("ebird_2024")
    part = tree.subset(["Larus vegae", "Corvus corax", "Larus argentatus"])
    assert part.species == [s for s in tree.species if s in {"Larus vegae", "Corvus corax", "Larus argentatus"}]
    assert part.genus_sizes == {"Larus": 2, "Corvus": 1}
    assert part.taxa.height == 1 + 2 + 2 + 2 + 3
    assert found(part, "Herring Gull")[3] == ["Larus argentatus", "Larus vegae"]
    assert found(part, "Pica pica")[2] == "none"
    assert part.sha256 == tree.sha256
    with pytest.raises(ParameterError) as error:
        tree.subset(["Corvus corax", "Corvus corvax", "Larus"])
    assert len(error.value.problems) == 2 and "Corvus corax" in str(error.value)


def test_subset_drops_names_of_what_is_gone(tmp_path):
    part = read_taxonomy(save(tmp_path / "t.csv", EBIRD)).subset(["Aechmophorus clarkii"])
    assert part.aliases.filter(pl.col("name").str.contains("Myrtle")).height == 0
    assert found(part, "Yellow-rumped Warbler (Myrtle)")[2] == "none"


# ------------------------------------------------------------------------------------------------- alignment of labels


def test_alignment_names_labels_that_share_a_species():
    tree = pinned("ebird_2024")
    labels = ["Junco hyemalis oreganus (Oregon Junco)", "Background", "Junco hyemalis", "Empidonax", "nobody"]
    each, summary = alignment(tree, labels)
    assert each["index"].to_list() == [0, 1, 2, 3, 4] and each["label"].to_list() == labels
    assert each["shares"].to_list() == [["Junco hyemalis"], [], [labels[0]], [], []]
    assert each["genus"].to_list() == ["Junco", None, "Junco", "Empidonax", None]
    assert dict(summary.iter_rows()) == {"trinomial": 1, "not_a_taxon": 1, "exact": 1, "genus": 1, "none": 1}
    assert alignment(tree, [])[1].height == 0


@pytest.mark.real
def test_labels_of_the_real_classifier(real_data):
    labels = (real_data / "classifier" / "inat_bird_labels.txt").read_text(encoding="utf-8").splitlines()
    assert len(labels) == 965 and labels[-1] == "background"
    each, summary = alignment(pinned("ebird_2024"), labels)
    counts = {"exact": 855, "synonym": 59, "trinomial": 42, "common": 6, "hybrid": 2, "not_a_taxon": 1}
    assert dict(summary.iter_rows()) == counts
    assert each.filter(pl.col("rank") == "species")["taxon_id"].n_unique() == 921
    shared = each.filter(pl.col("shares").list.len() > 0)
    assert (shared.height, shared["taxon_id"].n_unique()) == (71, 32)
    assert each.filter(pl.col("rank") == "genus")["genus"].sort().to_list() == ["Anas", "Ardea", "Astur", "Larus"]
