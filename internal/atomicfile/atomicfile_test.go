package atomicfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for _, payload := range [][]byte{nil, []byte("x"), []byte("a\nb\n"), bytes.Repeat([]byte{0, 0xff, '\n'}, 100_000)} {
		if err := Write(path, "test", 3, payload); err != nil {
			t.Fatal(err)
		}
		version, got, err := Read(path, "test", 3)
		if err != nil || version != 3 || !bytes.Equal(got, payload) {
			t.Fatalf("Read = v%d, %d bytes, %v; want v3, %d bytes", version, len(got), err, len(payload))
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if names, _ := filepath.Glob(path + "*"); len(names) != 1 {
		t.Fatalf("files left: %v; want the one file", names)
	}
}

// TestTornFileIsDamaged cuts a file at every length and flips every byte of it: nothing but the whole file reads.
//
// Covers: issue2 state files
func TestTornFileIsDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := Write(path, "test", 1, []byte("payload of the state file")); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, got, err := Read(path, "test", 1)
		var damaged *DamagedError
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
			t.Fatalf("%s: Read = %q, %v; want ErrDamaged", what, got, err)
		}
		if errors.As(err, &damaged) && (damaged.Path != path || damaged.Why == "") {
			t.Fatalf("%s: error %+v does not name file and cause", what, damaged)
		}
	}
	for n := range whole {
		try("cut", whole[:n])
		flipped := bytes.Clone(whole)
		flipped[n] ^= 0x20
		try("flip", flipped)
	}
	try("longer", append(bytes.Clone(whole), '!'))
	try("zeros", make([]byte, len(whole)))
	try("no header", bytes.Repeat([]byte("x"), 10_000))
}

func TestReadTellsCausesApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if _, _, err := Read(path, "test", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("missing file: %v; want fs.ErrNotExist", err)
	}
	if err := Write(path, "test", 2, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Read(path, "test", 1); !errors.Is(err, ErrNewer) || errors.Is(err, ErrDamaged) {
		t.Fatalf("newer version: %v; want ErrNewer only", err)
	}
	if _, _, err := Read(path, "other", 2); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), `"test"`) {
		t.Fatalf("other kind: %v; want ErrDamaged naming the kind found", err)
	}
	for _, bad := range []struct {
		kind    string
		version int
	}{{"", 1}, {"two words", 1}, {"x", 0}} {
		if err := Write(path, bad.kind, bad.version, nil); err == nil {
			t.Errorf("Write with kind %q version %d passed", bad.kind, bad.version)
		}
	}
	if _, _, err := Read(path, "test", 2); err != nil {
		t.Fatalf("a refused write touched the file: %v", err)
	}
}

// TestFailedWriteKeepsOld makes the temporary file impossible to create: the old content must stay readable.
func TestFailedWriteKeepsOld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := Write(path, "test", 1, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path+tempSuffix, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, "test", 1, []byte("new")); err == nil {
		t.Fatal("Write passed")
	}
	if _, got, err := Read(path, "test", 1); err != nil || string(got) != "old" {
		t.Fatalf("Read = %q, %v; want old", got, err)
	}
}

func TestSetAsideOverwritesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	seen := map[string]string{}
	for _, content := range []string{"one", "two", "three"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		aside, err := SetAside(path)
		if err != nil || !strings.HasPrefix(aside, path+".damaged-") {
			t.Fatalf("SetAside = %q, %v", aside, err)
		}
		seen[aside] = content
	}
	if len(seen) != 3 {
		t.Fatalf("names %v; want three", seen)
	}
	for name, content := range seen {
		if got, err := os.ReadFile(name); err != nil || string(got) != content {
			t.Fatalf("%s holds %q, %v; want %q", name, got, err, content)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the damaged file is still at its place: %v", err)
	}
	if _, err := SetAside(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("SetAside of nothing: %v", err)
	}
}

// TestKillWhileWriting kills a process that writes all the time and reads what is there: always a whole payload.
//
// Covers: issue2 kill9
func TestKillWhileWriting(t *testing.T) {
	if path := os.Getenv("ATOMICFILE_WRITE"); path != "" {
		for n := 1; ; n++ {
			if err := Write(path, "test", 1, bytes.Repeat([]byte{byte(n)}, 50_000)); err != nil {
				t.Fatal(err)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "state")
	for round := range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKillWhileWriting$")
		cmd.Env = append(os.Environ(), "ATOMICFILE_WRITE="+path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waitForFile(t, path)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed: an error is what is wanted
		_, got, err := Read(path, "test", 1)
		if err != nil || len(got) != 50_000 || bytes.Count(got, got[:1]) != len(got) {
			t.Fatalf("round %d: %d bytes, %v; want one whole payload", round, len(got), err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func waitForFile(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the writer wrote nothing")
}
