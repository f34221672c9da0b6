package notify

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// ownNames are what control and its parts keep in the data folder under exactly these names.
var ownNames = []string{"ca", "etcd", "format", "lock", "notify", "restore.unfinished", "series", "tape"}

// ownFamilies also begin the names of files that stand beside them while they are written or set aside, such as
// history.db-wal, admin.token.tmp and core.state.damaged-20260102T030405Z.
var ownFamilies = []string{"admin.token", "core.state", "dns.keys", "dns.map", "history.db", "run.state", "seal.key", "steer.yaml", "zone.key"}

func ownName(name string) bool {
	return slices.Contains(ownNames, name) || slices.ContainsFunc(ownFamilies, func(f string) bool {
		rest, ok := strings.CutPrefix(name, f)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '-')
	})
}

// controls gives what of control's own an opened file is, or is in; "" for a file that is none of it. Who writes resources
// says what file is sent where, and would get by that the admin token, which cannot be revoked. So it is asked which files
// these are, and not how they are called: links of both kinds and mounts give them other names.
func controls(folder string, never []string, path string, opened fs.FileInfo) (string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	above, err := foldersOf(path)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if !ownName(e.Name()) {
			continue
		}
		own := filepath.Join(folder, e.Name())
		is, err := isOf(own, opened, above)
		if err != nil {
			return "", err
		}
		if is {
			return e.Name(), nil
		}
	}
	for _, own := range never {
		// One that cannot be looked at cannot be read either: that it is out of reach stops no notifier.
		if is, err := isOf(own, opened, above); is && err == nil {
			return filepath.Base(own), nil
		}
	}
	return "", nil
}

// foldersOf gives the folders that a file is in, from its own up to the root, links resolved.
func foldersOf(path string) ([]fs.FileInfo, error) {
	target, err := filepath.EvalSymlinks(path)
	if err == nil {
		target, err = filepath.Abs(target)
	}
	if err != nil {
		return nil, err
	}
	var out []fs.FileInfo
	for dir := filepath.Dir(target); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return nil, err
		}
		out = append(out, info)
		if dir == filepath.Dir(dir) {
			return out, nil
		}
	}
}

// isOf reports whether an opened file, with the folders above it, is the file own or in the folder own. One that is not
// there holds nothing.
func isOf(own string, opened fs.FileInfo, above []fs.FileInfo) (bool, error) {
	info, err := os.Stat(own)
	switch {
	case os.IsNotExist(err): // replaced just now, or a link to nothing
		return false, nil
	case err != nil:
		return false, err
	case !info.IsDir():
		return os.SameFile(info, opened), nil
	case slices.ContainsFunc(above, func(f fs.FileInfo) bool { return os.SameFile(f, info) }):
		return true, nil
	}
	if st, ok := opened.Sys().(*syscall.Stat_t); ok && st.Nlink < 2 {
		return false, nil // it has no second name that could be in there
	}
	return anywhereIn(own, opened)
}

// anywhereIn reports whether a folder holds a file under any name.
func anywhereIn(dir string, file fs.FileInfo) (bool, error) {
	dir, err := filepath.EvalSymlinks(dir) // a walk does not follow a link
	if err != nil {
		return false, err
	}
	found := false
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) { // the store and the tape replace files at any time
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		switch info, err := d.Info(); {
		case os.IsNotExist(err):
			return nil
		case err != nil:
			return err
		case os.SameFile(info, file):
			found = true
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("search of %s: %w", dir, err)
	}
	return found, nil
}
