"""Facts about tools/check_layers.py."""

from pathlib import Path

import check_layers
import pytest


def findings(root: Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return [str(finding) for finding in check_layers.check(root)]


def body(lines: int) -> str:
    return "  call();\n" * lines


def test_include_of_a_lower_layer_is_allowed(tmp_path):
    assert (
        findings(
            tmp_path,
            {"src/engine/a.cpp": '#include "store/store.h"\n#include "engine/b.h"\n'},
        )
        == []
    )


@pytest.mark.parametrize("used", ["engine/e.h", "api/a.h", "comm/comm.h"])
def test_include_of_a_higher_layer_or_a_sibling_is_found(tmp_path, used):
    (found,) = findings(tmp_path, {"src/store/a.h": f'\n#include "{used}"\n'})
    assert found.startswith("src/store/a.h:2: store (layer 1) may not use " + used.split("/")[0])


def test_unit_tests_obey_the_layers_too(tmp_path):
    assert len(findings(tmp_path, {"src/base/a_test.cpp": '#include "format/manifest.h"\n'})) == 1


def test_public_headers_and_the_standard_library_are_no_modules(tmp_path):
    assert (
        findings(
            tmp_path,
            {"src/base/a.h": '#include "backstay/types.hpp"\n#include <sys/stat.h>\n'},
        )
        == []
    )


def test_cmake_uses_obey_the_layers(tmp_path):
    text = "backstay_module(catalog SOURCES a.cpp USES format store\n  TESTS a_test.cpp TEST_USES comm)\n"
    assert findings(tmp_path, {"src/catalog/CMakeLists.txt": text}) == []
    (found,) = findings(tmp_path, {"src/catalog/CMakeLists.txt": text.replace("store", "plan")})
    assert "catalog (layer 2) may not use plan (layer 2)" in found
    (found,) = findings(tmp_path, {"src/catalog/CMakeLists.txt": text.replace("store", "shop")})
    assert "not a module" in found


def test_long_cpp_functions_are_found_wherever_they_are(tmp_path):
    text = (
        "namespace a {\nclass B {\n public:\n  int f() const {\n" + body(70) + "  }\n  int g() { return 1; }\n};\n}\n"
    )
    (found,) = findings(tmp_path, {"src/base/a.cpp": text})
    assert found.startswith("src/base/a.cpp:4: this function has 72 lines")


def test_a_long_test_body_is_a_long_function(tmp_path):
    assert len(findings(tmp_path, {"src/base/a_test.cpp": "TEST(A, b) {\n" + body(70) + "}\n"})) == 1


def test_lambda_counts_to_its_function(tmp_path):
    lambda_ = "  auto f = [](int x) {\n" + body(34) + "  };\n"
    assert len(findings(tmp_path, {"src/base/a.cpp": "void f() {\n" + lambda_ + lambda_ + "}\n"})) == 1


def test_classes_tables_and_many_short_functions_may_be_long(tmp_path):
    functions = "struct S {\n" + "  void f() {\n" + body(3) + "  }\n" + "  int x = 1;\n" * 80 + "};\n"
    table = "const int table[] = {\n" + "  1,\n" * 90 + "};\n"
    assert (
        findings(
            tmp_path,
            {"src/base/a.h": functions + table + "enum class E {\n" + "  a,\n" * 90 + "};\n"},
        )
        == []
    )


def test_braces_in_text_and_comments_do_not_count(tmp_path):
    text = 'void f() {\n  // {\n  g("{", \'{\', R"({{)", 65\'536);\n}\n' + "int a;\n" * 90 + "void g() {}\n"
    assert findings(tmp_path, {"src/base/a.cpp": text}) == []


def test_long_python_functions_are_found(tmp_path):
    assert findings(tmp_path, {"python/a.py": "def f():\n" + "    pass\n" * 69}) == []
    assert len(findings(tmp_path, {"python/a.py": "def f():\n" + "    pass\n" * 70})) == 1


def test_unfinished_work_is_found(tmp_path):
    (found,) = findings(tmp_path, {"docs/a.md": "fine\nTO" + "DO: write this\n"})
    assert found.startswith("docs/a.md:2: TO" + "DO")


def test_paths_of_one_machine_are_found(tmp_path):
    (found,) = findings(tmp_path, {"apps/a.cpp": 'open("/ho' + 'me/me/data");\n'})
    assert "a path of one machine" in found
    assert (
        findings(
            tmp_path,
            {"apps/a.cpp": 'open("data/home/x"); open("$HOME/work/x"); open("/dev/shm/x");\n'},
        )
        == []
    )


def test_what_is_built_and_what_is_not_text_is_left_alone(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "golden.md").write_bytes(b"\xff\xfe\x00")
    assert findings(tmp_path, {"build/a.cpp": "// TO" + "DO\n"}) == []


def test_this_tree_passes():
    assert check_layers.check(Path(__file__).resolve().parent.parent) == []
