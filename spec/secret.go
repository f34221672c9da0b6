package spec

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"steerpoint/internal/hidden"
	"steerpoint/spec/internal/names"
)

// Secret holds values that are written and never shown: keys, tokens, URLs that are keys themselves. Other resources name
// them (SecretRef). What a server shows of one is its keys, each with a fingerprint of its value.
//
// A document that is written has values (data), or what was shown (keys), or both: a key of keys that is not in data keeps
// the value that is stored, if its fingerprint is still that one. What is in neither is gone afterwards.
type Secret struct {
	Name string `json:"-"` // the resource's name

	Data map[string]hidden.Text `json:"data" doc:"the values by key, each a text of at most 16 KiB; at most 64. They are written only: what is shown of them is keys"`
	Keys []SecretKey            `json:"keys" item:"key" maxItems:"64" doc:"what a server shows of the values; when it is written, a value that is not in data stays as it is stored"`
}

// SecretKey is one value of a Secret as it is shown.
type SecretKey struct {
	Name        string `json:"name" required:"true" format:"key" doc:"key of the value"`
	Fingerprint string `json:"fingerprint" required:"true" format:"fingerprint" doc:"keyed hash of the value, made by the server: it is the same as long as the value is, and nothing can be guessed from it"`
}

// SecretRef names one value of a Secret.
type SecretRef struct {
	Secret string `json:"secret" required:"true" format:"label" doc:"name of the Secret"`
	Key    string `json:"key" required:"true" format:"key" doc:"key of the value in it"`
}

// Limits of a Secret. A certificate chain with its key is some 10 KiB; a store is no place for larger files.
const (
	maxSecretKeys  = 64
	maxSecretValue = 16 << 10 // bytes
)

// SecretUse is one field that takes its value from a Secret.
type SecretUse struct {
	Field string // such as urlFrom
	SecretRef
}

// SecretUses gives what a notifier takes from Secrets, in the order of its fields.
func (n *Notifier) SecretUses() (out []SecretUse) {
	for _, f := range []struct {
		name string
		ref  *SecretRef
	}{{"urlFrom", n.URLFrom}, {"secretFrom", n.SecretFrom}, {"authorizationFrom", n.AuthorizationFrom}} {
		if f.ref != nil {
			out = append(out, SecretUse{f.name, *f.ref})
		}
	}
	return out
}

// Has reports whether a value of that key is written or shown.
func (s *Secret) Has(key string) bool {
	_, written := s.Data[key]
	return written || slices.ContainsFunc(s.Keys, func(k SecretKey) bool { return k.Name == key })
}

// KeyNames gives the keys in order.
func (s *Secret) KeyNames() []string {
	all := map[string]bool{}
	for k := range s.Data {
		all[k] = true
	}
	for _, k := range s.Keys {
		all[k.Name] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// secret checks one. No finding holds a value, nor a name that may be one by mistake.
func (c *checker) secret(s *Secret) {
	var shown []string
	for _, k := range s.Keys {
		shown = append(shown, k.Name)
	}
	c.uniqueNames("keys", shown, "key")
	if n := len(s.KeyNames()); n == 0 && c.sound("data", "keys") {
		c.fail("", "", valueError{CodeMissing, "has no values", "data: {KEY: VALUE}", ""})
	} else if n > maxSecretKeys {
		c.fail("data", "", valueError{CodeOutOfRange, "has too many values", "at most 64", ""})
	}
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		v, at := s.Data[key], "data."+key
		switch {
		case v.Len() == 0:
			c.fail(at, "", valueError{CodeBadValue, "is empty", "a text; leave the key out to be without it", ""})
		case v.Len() > maxSecretValue:
			c.fail(at, "", valueError{CodeOutOfRange, "is too long", "at most 16384 bytes", ""})
		case strings.TrimSpace(v.Reveal()) == hidden.Mark:
			c.fail(at, "", valueError{CodeBadValue, "is what stands where a value is not shown", "the value itself, or keys as the server showed them", ""})
		}
	}
}

// NotKept is the error about a value that a document leaves as it is stored, and that cannot stay.
func (r *Resource) NotKept(key, problem string) Error {
	i := slices.IndexFunc(r.Secret.Keys, func(k SecretKey) bool { return k.Name == key })
	c := &checker{r: r, src: r.src}
	return Error{c.finding(at("keys[%d]", i), key, valueError{CodeNotKept, problem, "the value itself, in data", ""})}
}

// secretRefs refuses the use of a value that does not exist. As part of a configuration the Secret may be elsewhere.
func (k *setChecker) secretRefs() {
	k.each(func(r *Resource) {
		for _, use := range r.SecretUses() {
			doc, ok := k.set.Get(KindSecret, use.Secret)
			switch {
			case !ok && k.whole:
				k.fail(r, use.Field+".secret", use.Secret, valueError{CodeUndefined, "is no Secret", strings.Join(k.secretNames(), ", "), names.Nearest(use.Secret, k.secretNames())})
			case ok && !doc.Secret.Has(use.Key):
				k.fail(r, use.Field+".key", use.Key, valueError{CodeUndefined, "is no key of Secret " + use.Secret, strings.Join(doc.Secret.KeyNames(), ", "), names.Nearest(use.Key, doc.Secret.KeyNames())})
			}
		}
	})
}

func (k *setChecker) secretNames() []string {
	var out []string
	for _, s := range k.set.secrets {
		out = append(out, s.Name)
	}
	return out
}

// isHidden is true for maps of values that do not show.
func isHidden(t reflect.Type) bool { return t == reflect.TypeFor[map[string]hidden.Text]() }

// quiet reports whether a finding at a path must not repeat what stands there: anything in a Secret may be a value, or one
// that is indented wrongly; in a Notifier or a Zone a key may stand where the name of one belongs.
func (d *decoder) quiet(path string) bool {
	switch d.kind {
	case KindSecret:
		return !slices.Contains([]string{"apiVersion", "kind", "name", "revision"}, path)
	case KindNotifier:
		top, _, _ := strings.Cut(path, ".")
		return slices.Contains([]string{"urlFrom", "secretFrom", "authorizationFrom"}, top)
	case KindZone:
		return strings.HasPrefix(path, "tsigKeys[") && strings.Contains(path, ".secretFrom")
	case KindCertificate:
		return strings.HasPrefix(path, "chainFrom") || strings.HasPrefix(path, "keyFrom") || strings.HasPrefix(path, "acme.eabKeyFrom")
	}
	return false
}

// quiet is the error without what was made of the value. Names of fields, which an unknown one may mean, are ours.
func (e *valueError) quiet() *valueError {
	out := *e
	if out.code != CodeUnknownField {
		out.suggest = ""
	}
	return &out
}

// hidden decodes a map of values that do not show. The key of a wrong entry is not named: {token} is a key without a
// value, and what stands there is likely to be the value. The line says which one it is.
func (d *decoder) hidden(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, path, &valueError{CodeWrongType, "is " + nodeWords(n), "a map of keys and values, such as {token: VALUE}", ""})
		return
	}
	out := map[string]hidden.Text{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		_, twice := out[key.Value]
		switch e := checkFormat("key", key.Value); {
		case e != nil:
			d.fail(key, path, &valueError{CodeBadName, "holds a key that is none", formatWords("key"), ""})
		case twice:
			d.fail(key, path, &valueError{CodeDuplicate, "holds a key twice", "each key once", ""})
		case val.Kind != yaml.ScalarNode || val.Tag == "!!null":
			d.fail(val, path, &valueError{CodeNoValue, "holds a key without a value", "KEY: VALUE, or KEY: | and the lines of the value below", ""})
		case val.Tag != "!!str":
			d.fail(val, path, &valueError{CodeWrongType, "holds a value that is no text (it is " + nodeWords(val) + ")", "quotes around it", ""})
		default:
			out[key.Value] = hidden.New(val.Value)
			d.src.pos[path+"."+key.Value] = position{val.Line, val.Column}
		}
	}
	if len(out) > 0 {
		v.Set(reflect.ValueOf(out))
	}
}
