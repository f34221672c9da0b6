package main

import (
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"steerpoint/internal/hidden/leaktest"
)

// leaks looks through a folder for values, plain, escaped, in base64, in hex and inside gzip. A word that is there by right
// proves that the search sees it.
func leaks(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: leaks FOLDER VALUE...")
	}
	dir := ts.MkAbs(args[0])
	found, files, err := leaktest.Folder(dir, args[1:]...)
	ts.Check(err)
	if len(found) > 0 {
		ts.Fatalf("values leaked:\n%s", strings.Join(found, "\n"))
	}
	if seen, _, err := leaktest.Folder(filepath.Join(dir, "etcd"), "steerpoint/v1"); err != nil || len(seen) == 0 || files < 8 {
		ts.Fatalf("the search finds nothing in %d files: %v", files, err)
	}
}
