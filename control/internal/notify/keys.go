package notify

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Types of targets, as resources name them.
const (
	typeWebhook  = "webhook"
	typeSlack    = "slack"
	typeDingTalk = "dingtalk"
	typeFeishu   = "feishu"
	typeWeCom    = "wecom"
)

// Target is one notifier as its resource says.
type Target struct {
	Name, Type string
	URL        string // or
	URLFile    string
	// SecretFile, AuthorizationFile: "" for none. Names without a leading slash are within Config.Folder.
	SecretFile, AuthorizationFile string
	// URLFrom, SecretFrom, AuthorizationFrom name values of Secrets instead of files.
	URLFrom, SecretFrom, AuthorizationFrom KeyRef
	// Version is another one when what they name may be another value, or can be had now.
	Version      uint64
	On, Services []string // Services: empty for all
	Headers      map[string]string
	Language     string
}

// KeyRef names a value of a Secret; the zero one names none.
type KeyRef struct{ Secret, Key string }

// hears reports whether an event is for the target.
func (t *Target) hears(e *Event) bool {
	return e.Not != t.Name && slices.Contains(t.On, e.Kind) && (len(t.Services) == 0 || slices.Contains(t.Services, e.Service))
}

// maxKey bounds a key file, in bytes: keys and URLs are far shorter.
const maxKey = 4096

// readKey reads a key file without the blanks around it. Others may not be able to read it: a key that is not kept is
// none. Control's own files in the folder are no notifier's keys, and neither are those in never.
func readKey(folder, name string, never ...string) (string, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, name)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("key file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", fmt.Errorf("key file: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("key file %s is no plain file", path)
	}
	switch own, err := controls(folder, never, path, info); {
	case err != nil:
		return "", fmt.Errorf("key file: %w", err)
	case own != "":
		return "", fmt.Errorf("key file %s is one of control's own files (%s) and is never sent: give the notifier a file of its own, or a value of a Secret", path, own)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("key file %s can be read by others (mode %04o): chmod 0600 it", path, info.Mode().Perm())
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return "", fmt.Errorf("key file: %w", err)
	}
	return oneLine("key file "+path, string(b))
}

// oneLine is a key without the blanks around it.
func oneLine(what, text string) (string, error) {
	key := strings.TrimSpace(text)
	switch {
	case len(text) > maxKey:
		return "", fmt.Errorf("%s is longer than %d bytes", what, maxKey)
	case key == "":
		return "", fmt.Errorf("%s is empty", what)
	case strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }):
		return "", fmt.Errorf("%s holds more than one line of printable ASCII", what)
	}
	return key, nil
}

// key gives one key from where it is; "" from nowhere.
func (c *Config) key(file string, ref KeyRef) (string, error) {
	switch {
	case file != "":
		return readKey(c.folder(), file, c.Never...)
	case ref == KeyRef{}:
		return "", nil
	case c.Secret == nil:
		return "", fmt.Errorf("%s: there are no Secrets here", ref.name())
	}
	v, err := c.Secret(ref.Secret, ref.Key)
	if err != nil {
		return "", err
	}
	return oneLine(ref.name(), v.Reveal())
}

// keys are what a target's files and Secrets hold. They live as long as one message is being sent.
type keys struct {
	url                   *url.URL
	urlIsKey              bool // it was in a file or a Secret
	secret, authorization string
}

// read reads the keys of a target. They are read anew for every message, so that a key can be changed in place.
func (t *Target) read(cfg *Config) (keys, error) {
	var k keys
	address := t.URL
	for _, f := range []struct {
		file string
		ref  KeyRef
		into *string
	}{{t.URLFile, t.URLFrom, &address}, {t.SecretFile, t.SecretFrom, &k.secret}, {t.AuthorizationFile, t.AuthorizationFrom, &k.authorization}} {
		key, err := cfg.key(f.file, f.ref)
		if err != nil {
			return keys{}, err
		}
		if key != "" {
			*f.into = key
		}
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || t.Type != typeWebhook):
		// The text itself is never told: it may be a key.
		return keys{}, fmt.Errorf("%s holds no URL that a notifier of type %s can post to: it must be https, without credentials", cmp.Or(t.URLFile, t.URLFrom.name(), "url"), t.Type)
	}
	k.url, k.urlIsKey = u, t.URL == ""
	return k, nil
}

// name names the value for people; "" for none.
func (r KeyRef) name() string {
	if r == (KeyRef{}) {
		return ""
	}
	return "key " + r.Key + " of Secret " + r.Secret
}

// where is the part of a URL that is no key: scheme and host.
func (k *keys) where() string { return k.url.Scheme + "://" + k.url.Host }

// scrub takes keys out of a text that others had a hand in: an error of the network, the answer of a server.
func (k *keys) scrub(s string) string {
	var secrets []string
	add := func(list ...string) {
		for _, v := range list {
			if len(v) >= 6 { // a shorter one would take out words
				secrets = append(secrets, v)
			}
		}
	}
	add(k.secret, k.authorization)
	if fields := strings.Fields(k.authorization); len(fields) > 1 {
		add(fields[1:]...) // after the scheme, which is no key
	}
	if k.urlIsKey {
		add(k.url.RequestURI(), k.url.Path, k.url.RawQuery)
		add(strings.Split(k.url.Path, "/")...)
		for _, values := range k.url.Query() {
			add(values...)
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, v := range secrets {
		s = strings.ReplaceAll(s, v, "[key]")
	}
	return s
}

// plainError takes the URL out of an error of the HTTP client, and every key out of its text.
func (k *keys) plainError(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return errors.New(k.scrub(err.Error()))
}
