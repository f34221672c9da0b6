package archtest

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Text is a file of the tree that is not binary.
type Text struct {
	Path string // relative to the root
	Data string
}

// Tree lists the text files under root that belong to the repository: tracked ones, and new ones git does not ignore.
func Tree(root string) ([]Text, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	names, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files in %s: %w: %s", root, err, bytes.TrimSpace(stderr.Bytes()))
	}
	var texts []Text
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // tracked, and removed since
		}
		if err != nil {
			return nil, fmt.Errorf("file of the tree: %w", err)
		}
		if utf8.Valid(data) && !bytes.ContainsRune(data, 0) {
			texts = append(texts, Text{name, string(data)})
		}
	}
	return texts, nil
}

// The words are written in parts here, so that this file passes its own check.
var (
	unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|HA` + `CK|X` + `XX)\b`)
	machine    = regexp.MustCompile(`(^|[^\w./-])/(work|root|home/\w+|tmp/bash_jobs\.\d+)/[\w.]`)
)

// registries are hosts a package is fetched from; the ordinary clients know them, and nobody else needs to.
var registries = []string{
	"proxy" + ".golang.org", "sum" + ".golang.org", "registry" + ".npmjs.org", "deb" + ".debian.org", "pypi" + ".org",
}

// CheckTree looks through the text of the tree: nothing unfinished, and nothing of the machine it was made on.
// goproxy is the value of GOPROXY, whose hosts are the machine's own affair too.
func CheckTree(texts []Text, goproxy string) []Finding {
	hosts := registries
	for part := range strings.FieldsFuncSeq(goproxy, func(r rune) bool { return r == ',' || r == '|' }) {
		if u, err := url.Parse(part); err == nil && u.Hostname() != "" {
			hosts = append(hosts, u.Hostname())
		}
	}
	var found []Finding
	for _, t := range texts {
		n := 0
		for line := range strings.Lines(t.Data) {
			n++
			where := fmt.Sprintf("%s:%d", t.Path, n)
			if w := unfinished.FindString(line); w != "" {
				found = append(found, Finding{"unfinished", where, "says " + w, "what is not done is an issue, not a comment"})
			}
			if w := machine.FindString(line); w != "" {
				found = append(found, Finding{"machine", where, "names a path of one machine: " + strings.TrimSpace(w), "the tree works where it is cloned"})
			}
			for _, h := range hosts {
				if strings.Contains(line, h) {
					found = append(found, Finding{"registry", where, "names a package registry: " + h, "the ordinary clients know where packages are"})
				}
			}
		}
	}
	return found
}
