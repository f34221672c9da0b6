package spec

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"steerpoint/internal/hidden"
	"steerpoint/internal/hidden/leaktest"
)

const planted = "pl4ntedvalue"

func secret(rest string) string {
	return "apiVersion: steerpoint/v1\nkind: Secret\nname: pager\n" + rest
}

const shownKeys = "keys: [{name: token, fingerprint: 00112233445566aa}, {name: url, fingerprint: 00112233445566bb}]\n"

// TestSecretIsReadAndNotWritten: the values are there for who reveals them, and nothing writes them; what stands in their
// place is refused when it is read.
//
// Covers: issue4 secrets sealed
func TestSecretIsReadAndNotWritten(t *testing.T) {
	r := must(t, secret("data:\n  token: "+planted+"\n  pem: |\n    -----BEGIN-----\n    "+planted+"\n"))[0]
	if r.Secret.Data["token"].Reveal() != planted || r.Secret.Data["pem"].Reveal() != "-----BEGIN-----\n"+planted+"\n" {
		t.Fatal("the values are not what was written")
	}
	if got := r.Secret.KeyNames(); !slices.Equal(got, []string{"pem", "token"}) || !r.Secret.Has("pem") || r.Secret.Has("x") {
		t.Errorf("keys %v", got)
	}
	other := must(t, secret("data: {token: another, pem: x}"))[0]
	if r.Equal(other) || !r.Equal(r) {
		t.Error("Secrets with other values are equal")
	}
	var all strings.Builder
	for _, form := range []Form{Minimal, Full} {
		y, err := r.YAML(form)
		if err != nil {
			t.Fatal(err)
		}
		j, err := r.JSON(form)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(string(y) + string(j))
		for _, text := range [][]byte{y, j} {
			if _, errs := Parse("", text); len(errs) != 2 || errs[0].Code != CodeBadValue {
				t.Errorf("%s is read: %v", text, errs)
			}
		}
	}
	fmt.Fprintf(&all, "%v %+v %#v %s", r, r, r.Secret, r.Secret)
	for _, c := range Diff(NewSet([]Resource{r}), NewSet([]Resource{other})) {
		fmt.Fprintln(&all, c)
	}
	if found := leaktest.Scan([]byte(all.String()), planted); len(found) > 0 {
		t.Errorf("%v in\n%s", found, all.String())
	}
	if !strings.Contains(all.String(), hidden.Mark) {
		t.Error("nothing shows that something is hidden")
	}
}

// TestSecretAsShown: what a server shows is read again, round-trips, and differs by keys.
//
// Covers: issue4 secrets sealed
func TestSecretAsShown(t *testing.T) {
	a := must(t, secret(shownKeys))[0]
	roundTrip(t, a)
	b := must(t, secret("labels: {a: b}\nkeys: [{name: token, fingerprint: ffff223344556677}, {name: more, fingerprint: 00112233445566cc}]"))[0]
	var lines []string
	for _, f := range DiffResource(a, b) {
		lines = append(lines, f.String())
	}
	want := []string{
		"labels (none) -> {a: b}", `key token: fingerprint "00112233445566aa" -> ffff223344556677`, "key url: removed",
		`key more: added {name: more, fingerprint: "00112233445566cc"}`,
	}
	got := strings.ReplaceAll(strings.Join(lines, "\n"), `"`, "")
	if got != strings.ReplaceAll(strings.Join(want, "\n"), `"`, "") {
		t.Errorf("%s", got)
	}
	if e := a.NotKept("url", "is not stored here"); e.Code != CodeNotKept || e.Line != 4 || !strings.Contains(e.Error(), "keys[1]: url is not stored here") {
		t.Errorf("%v", e)
	}
}

// TestSecretMistakes: every way in which a value may stand where it does not belong is refused at its line, and no finding
// repeats it.
//
// Covers: issue4 secrets sealed, issue4 secret leaks
func TestSecretMistakes(t *testing.T) {
	many := "data:\n"
	for i := range maxSecretKeys + 1 {
		many += fmt.Sprintf("  k%d: %s\n", i, planted)
	}
	for what, rest := range map[string]string{
		"no data":                 "",
		"empty data":              "data: {}\n",
		"data without value":      "data:\ntoken: " + planted + "\n",
		"data is text":            "data: " + planted + "\n",
		"data is a list":          "data: [" + planted + "]\n",
		"a list of maps":          "data: [{" + planted + ": " + planted + "}]\n",
		"a value as key":          "data: {" + planted + "}\n",
		"a key that is none":      "data: {\"" + planted + " x\": a}\n",
		"a value without quotes":  "data: {pin: 7531" + "975312468}\n",
		"true":                    "data: {a: yes, b: true, c: 2026-01-02}\n",
		"nested":                  "data: {token: {value: " + planted + "}}\n",
		"twice":                   "data: {token: a, token: " + planted + "}\n",
		"empty":                   "data: {token: \"\"}\n",
		"the mark":                "data: {token: \"[secret]\"}\n",
		"too long":                "data: {token: \"" + strings.Repeat(planted, 2000) + "\"}\n",
		"too many":                many,
		"at the top":              planted + ": x\ndata: {a: b}\n",
		"another field":           "token: " + planted + "\n",
		"stringData":              "stringData: {token: " + planted + "}\n",
		"in labels":               "labels: {token: [" + planted + "]}\ndata: {a: b}\n",
		"labels is text":          "labels: " + planted + "\ndata: {a: b}\n",
		"in keys":                 "keys: [" + planted + "]\n",
		"as fingerprint":          "keys: [{name: token, fingerprint: " + planted + "}]\n",
		"as a field of keys":      "keys: [{name: token, value: " + planted + ", fingerprint: 0011223344556677}]\n",
		"keys twice":              "keys: [{name: a, fingerprint: 00112233445566aa}, {name: a, fingerprint: 00112233445566aa}]\n",
		"sealed":                  "data: {a: b}\nsealed: {values: {a: " + planted + "}}\n",
		"an anchor":               "data: {token: &" + planted + " x}\n",
		"an alias":                "data: {token: *" + planted + "}\n",
		"a tag":                   "data: {token: !" + planted + " x}\n",
		"a quote that stays open": "data: {token: \"" + planted + "\n",
		"a colon":                 "data: {token: a: " + planted + "}\n  b\n",
		"a block that is not in":  "data:\n  key: |\n" + planted + "\n",
		"a tab":                   "data:\n\ttoken: " + planted + "\n",
		"a percent sign":          "data: {token: %" + planted + "}\n",
		"a control character":     "data: {token: \"" + planted + "\x01\"}\n",
		"not UTF-8":               "data: {token: " + planted + "\xff}\n",
	} {
		text := secret(rest)
		docs, errs := Parse("s.yaml", []byte(text))
		more, warns := NewSet(docs).Check(Complete)
		errs = append(errs, more...)
		if len(errs) == 0 {
			t.Errorf("%s: nothing is wrong with\n%s", what, text)
		}
		said := errs.Error() + fmt.Sprintf("%+v %+v", errs, warns)
		for _, form := range leaktest.Scan([]byte(said), planted) {
			t.Errorf("%s: %s in %s", what, form, errs.Error())
		}
		if strings.Contains(said, "7531") {
			t.Errorf("%s: a number is repeated: %s", what, errs.Error())
		}
		for _, e := range errs {
			if e.Line == 0 && e.Code != CodeMissing {
				t.Errorf("%s: no line: %v", what, e)
			}
		}
	}
}

// TestSecretMistakesHelp: although it shows nothing, a finding says what is wrong, where, and what may be meant.
//
// Covers: issue4 secrets sealed
func TestSecretMistakesHelp(t *testing.T) {
	for rest, want := range map[string]string{
		"dta: {token: x}\n":         "s.yaml:4:1: Secret pager: is no field here; did you mean data?",
		"data: {a: b, token: 12}\n": "s.yaml:4:21: Secret pager: data: holds a value that is no text (it is a number); allowed: quotes around it",
		"data:\n  a: b\n  token:\n": "s.yaml:6:9: Secret pager: data: holds a key without a value",
		"data: {token: \"\"}\n":     "s.yaml:4:15: Secret pager: data.token: is empty",
	} {
		_, errs := Parse("s.yaml", []byte(secret(rest)))
		if !strings.Contains(errs.Error(), want) {
			t.Errorf("%q gives\n%v\nwant %s", rest, errs, want)
		}
	}
}

// TestSecretRefs: a Notifier takes its keys from values that exist; one that does not is refused, and so is a Secret's
// deletion while it is used. As part of a configuration the Secret may be elsewhere, but not another key of one at hand.
//
// Covers: issue4 secrets sealed
func TestSecretRefs(t *testing.T) {
	notifier := `apiVersion: steerpoint/v1
kind: Notifier
name: n
type: webhook
urlFrom: {secret: pager, key: url}
secretFrom: {secret: pager, key: token}
authorizationFrom: {secret: other, key: token}
`
	docs := must(t, notifier)
	roundTrip(t, docs[0])
	n := docs[0].Notifier
	var fields []string
	for _, u := range n.SecretUses() {
		fields = append(fields, u.Field+" "+u.Secret+"/"+u.Key)
	}
	if got := strings.Join(fields, ", "); got != "urlFrom pager/url, secretFrom pager/token, authorizationFrom other/token" {
		t.Error(got)
	}
	check := func(whole Completeness, more ...string) string {
		all := slices.Clone(docs)
		for _, text := range more {
			all = append(all, must(t, text)...)
		}
		errs, _ := NewSet(all).Check(whole)
		return errs.Error()
	}
	other := strings.Replace(secret("data: {token: x}"), "name: pager", "name: other", 1)
	if got := check(Complete, secret(shownKeys), other); got != "" {
		t.Error(got)
	}
	if got := check(Partial); got != "" {
		t.Errorf("as a part: %s", got)
	}
	if got := check(Complete, other); !strings.Contains(got, "urlFrom.secret: pager is no Secret; allowed: other") || strings.Count(got, "\n") != 1 {
		t.Errorf("without pager: %s", got)
	}
	if got := check(Partial, secret("data: {url: x, tokens: x}"), other); !strings.Contains(got, "secretFrom.key: token is no key of Secret pager; allowed: tokens, url; did you mean tokens?") {
		t.Errorf("without its key: %s", got)
	}
	for text, want := range map[string]string{
		"type: webhook\nurl: https://a.example/\nurlFrom: {secret: a, key: b}\n":                                 "has url and urlFrom",
		"type: webhook\nurl: https://a.example/\nsecretFile: a\nsecretFrom: {secret: a, key: b}\n":               "has secretFile and secretFrom",
		"type: webhook\nurl: https://a.example/\nauthorizationFile: a\nauthorizationFrom: {secret: a, key: b}\n": "has authorizationFile and authorizationFrom",
		"type: slack\nurlFrom: {secret: a, key: b}\nsecretFrom: {secret: a, key: b}\n":                           "secretFrom: has no effect",
		"type: feishu\nurlFrom: {secret: a, key: b}\nauthorizationFrom: {secret: a, key: b}\n":                   "authorizationFrom: has no effect",
		"type: slack\nurlFrom: {secret: a}\n":                                                                    "urlFrom.key: is missing",
		"type: slack\nurlFrom: {secret: A_b, key: b}\n":                                                          "urlFrom.secret: is not a valid name",
		"type: slack\nurlFrom: \"https://hooks.example/key\"\n":                                                  "urlFrom: ",
	} {
		_, errs := Parse("n.yaml", []byte("apiVersion: steerpoint/v1\nkind: Notifier\nname: n\n"+text))
		if !strings.Contains(errs.Error(), want) || strings.Contains(errs.Error(), "hooks.example") {
			t.Errorf("%q gives %v, want %s", text, errs, want)
		}
	}
}
