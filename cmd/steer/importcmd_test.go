package main

import (
	"os"
	"testing"

	"steerpoint/internal/importer"
	"steerpoint/spec"
)

// An import that cannot write all of its files leaves none: half of one may be valid, and it would be in the way of the
// next try.
//
// Covers: issue4 import hostile
func TestImportLeavesNoPart(t *testing.T) {
	doc := func(name string) importer.Doc {
		return importer.Doc{Resource: spec.Resource{Kind: spec.KindService, Name: name}, YAML: []byte("name: " + name + "\n")}
	}
	dir := t.TempDir()
	if err := writeFolder(dir, &importer.Result{Docs: []importer.Doc{doc("a"), doc("b"), doc("no-folder/c")}}); err == nil {
		t.Fatal("a file in a folder that is not there was written")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := writeFolder(dir, &importer.Result{Docs: []importer.Doc{doc("a"), doc("b")}}); err != nil {
		t.Error(err)
	}
}
