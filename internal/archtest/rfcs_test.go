package archtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mustAndShould are the RFCs that the name server is held against.
var mustAndShould = map[bool][]string{
	true:  strings.Fields(`1034 1035 2181 2308 3597 4343 4592 8020 6891 7871 7873 9018 7766 9210 8482 8906 9715 9619 9156 9460 9461 9471`),
	false: strings.Fields(`4033 4034 4035 9824 4470 8624 9904 8198 8914 5001 9660 7828 1996 5936 1995 8945 1982 9432`),
}

func rfcs(t *testing.T) ([]RFC, []Cover) {
	t.Helper()
	packages, texts := tree(t)
	list, err := ReadRFCs(read(t, filepath.Join(root, "docs/rfcs.tsv")))
	if err != nil {
		t.Fatal(err)
	}
	return list, Covers(packages, texts)
}

// Every RFC that an authoritative name server must or should follow is in the table, and every requirement of it has its test,
// or says why not.
//
// Covers: issue5 rfcs
func TestEveryRFCHasItsTests(t *testing.T) {
	list, covers := rfcs(t)
	report(t, CheckRFCs(list, covers))
	for must, numbers := range mustAndShould {
		for _, number := range numbers {
			if !slices.ContainsFunc(list, func(r RFC) bool { return r.ID == "rfc "+number && (r.Must || !must) }) {
				t.Errorf("RFC %s is not in docs/rfcs.tsv (as a must: %t)", number, must)
			}
		}
	}
}

// Covers: issue5 rfcs
func TestRFCPageIsCurrent(t *testing.T) {
	list, covers := rfcs(t)
	page, want := filepath.Join(root, "docs/rfcs.md"), RenderRFCs(list, covers)
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if read(t, page) != want {
		t.Error("docs/rfcs.md is not what the tests' Covers lines say: run make cases")
	}
}

// The check is held against planted faults.
//
// Covers: issue5 rfcs
func TestRFCFaultsAreFound(t *testing.T) {
	const table = "rfc 1\tmust\tone\n\ta\ttested\n\tb\tnot tested\n\tc\texcused\tno time\nrfc 2\tshould\ttwo\n\td\texcused\tno use\nrfc 3\tshould\tempty\n"
	list, err := ReadRFCs(table)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range CheckRFCs(list, []Cover{{"rfc 1 a", "p", "TestA"}, {"rfc 1 x", "p", "TestX"}, {"rfc 1", "p", "TestAll"}, {"rfc 9 y", "p", "TestY"}}) {
		got = append(got, f.String())
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{"rfc 1 b (not tested)", "rfc 1 c is a must", "rfc 3 has no requirements", `"rfc 1 x"`} {
		if !strings.Contains(all, want) {
			t.Errorf("not found: %s in\n%s", want, all)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d findings, want 4:\n%s", len(got), all)
	}
	for _, bad := range []string{"\ta\tb\n", "rfc 1\tmay\tone\n", "rfc 1\tmust\tone\nrfc 1\tmust\tone\n", "RFC 1\tmust\tone\n", "rfc 1\tmust\tone\n\ta\n"} {
		if _, err := ReadRFCs(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	if page := RenderRFCs(list, []Cover{{"rfc 1 a", "p", "TestA"}}); !strings.Contains(page, "### RFC 1: one\n\n| requirement | proved by |\n| --- | --- |\n| tested | p: TestA |\n") || !strings.Contains(page, "| excused | *no use* |") {
		t.Error(page)
	}
}
