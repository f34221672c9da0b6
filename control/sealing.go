package control

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"steerpoint/control/api"
	"steerpoint/control/internal/archive"
	"steerpoint/control/internal/store"
	"steerpoint/internal/hidden"
	"steerpoint/internal/seal"
	"steerpoint/spec"
)

// sealProblem is the refusal of what needs a sealing key that is not there.
func sealProblem(err error) *api.Problem {
	return problem(http.StatusServiceUnavailable, api.CodeSealKey, "The sealing key is not at hand",
		err.Error()+"; nothing was changed. Everything else goes on; `steer status` says what to do")
}

// sealed gives a change whose Secrets hold no values any more: of each stands in sealed what is to be stored. It is made
// before anything is planned, compared or shown.
func (c *Control) sealed(ch *change, stored map[string]store.Resource) (*change, error) {
	if !slices.ContainsFunc(ch.docs, func(d spec.Resource) bool { return d.Secret != nil }) {
		return ch, nil
	}
	out := *ch
	out.docs, out.sealed, out.renewed = slices.Clone(ch.docs), map[string]*seal.Sealed{}, map[string]bool{}
	var errs spec.Errors
	for i := range out.docs {
		d := &out.docs[i]
		if d.Secret == nil {
			continue
		}
		w := newSealing(&c.secrets, d, stored[d.Key()])
		keys, sealed, err := w.do()
		if err != nil {
			return nil, err
		}
		errs = append(errs, w.errs...)
		d.Secret, out.sealed[d.Name], out.renewed[d.Key()] = &spec.Secret{Name: d.Name, Keys: keys}, sealed, w.renewed
	}
	if len(errs) > 0 {
		return nil, invalid(errs)
	}
	return &out, nil
}

// sealing is the way of one written Secret into the store.
type sealing struct {
	secrets *secrets
	doc     *spec.Resource
	place   seal.Place
	before  []spec.SecretKey // what is stored
	sealed  *seal.Sealed     // of before; nil: nothing is, or it cannot be read
	errs    spec.Errors
	renewed bool // the values are those that are stored, which do not open any more
}

func newSealing(s *secrets, doc *spec.Resource, stored store.Resource) *sealing {
	w := &sealing{secrets: s, doc: doc, place: placeOf(doc.Name)}
	if stored.Document == nil {
		return w
	}
	if old, err := parseStored(&stored); err == nil && old.Secret != nil {
		w.before = old.Secret.Keys
	}
	if sealed, err := sealedOf(stored.Document); err == nil {
		w.sealed = sealed
	}
	return w
}

// fingerprint is that of a stored value; "": there is none.
func (w *sealing) fingerprint(key string) string {
	i := slices.IndexFunc(w.before, func(k spec.SecretKey) bool { return k.Name == key })
	if i < 0 || w.sealed == nil {
		return ""
	}
	return w.before[i].Fingerprint
}

// do gives what is shown and what is stored. A value that did not change is not sealed anew, so that writing the same
// again changes nothing.
func (w *sealing) do() ([]spec.SecretKey, *seal.Sealed, error) {
	kept := w.kept()
	if len(w.errs) > 0 {
		return nil, nil, nil
	}
	if len(w.doc.Secret.Data) == 0 { // nothing is opened or sealed, so no key is needed
		return kept, w.part(kept), nil
	}
	keys, err := w.secrets.usable()
	if err != nil {
		return nil, nil, sealProblem(err)
	}
	all := slices.Clone(kept)
	for name, v := range w.doc.Secret.Data {
		all = append(all, spec.SecretKey{Name: name, Fingerprint: keys.Fingerprint(w.place, name, v)})
	}
	slices.SortFunc(all, func(a, b spec.SecretKey) int { return strings.Compare(a.Name, b.Name) })
	if w.sealed != nil && w.sealed.Master == keys.Current() && slices.Equal(all, w.before) {
		if keys.Check(w.place, w.sealed) == nil {
			return all, w.sealed, nil
		}
		w.renewed = true
	}
	values := maps.Clone(w.doc.Secret.Data)
	for _, k := range kept {
		if values[k.Name], err = keys.Open(w.place, w.sealed, k.Name); err != nil {
			return nil, nil, sealProblem(fmt.Errorf("the value of key %s of Secret %s cannot be kept: %w", k.Name, w.doc.Name, err))
		}
	}
	for i := range all { // those that were kept may have been sealed by an older key
		all[i].Fingerprint = keys.Fingerprint(w.place, all[i].Name, values[all[i].Name])
	}
	sealed, err := keys.Seal(w.place, values)
	return all, sealed, err
}

// kept gives the keys whose values stay, and refuses those that are not stored as the document says.
func (w *sealing) kept() []spec.SecretKey {
	kept := []spec.SecretKey{}
	for _, k := range w.doc.Secret.Keys {
		if _, written := w.doc.Secret.Data[k.Name]; written {
			continue
		}
		switch has := w.fingerprint(k.Name); {
		case has == "":
			w.errs = append(w.errs, w.doc.NotKept(k.Name, "is not stored here, so it cannot stay as it is"))
		case has != k.Fingerprint:
			w.errs = append(w.errs, w.doc.NotKept(k.Name, "has another value here than when this was shown"))
		}
		kept = append(kept, k)
	}
	slices.SortFunc(kept, func(a, b spec.SecretKey) int { return strings.Compare(a.Name, b.Name) })
	return kept
}

// part is what is stored of some of the values that are sealed already.
func (w *sealing) part(kept []spec.SecretKey) *seal.Sealed {
	out := *w.sealed
	out.Values = map[string][]byte{}
	for _, k := range kept {
		out.Values[k.Name] = w.sealed.Values[k.Name]
	}
	return &out
}

// stored is a document as it is stored: of a Secret with its sealed values, those of the change, or else those that are
// stored now.
func (ch *change) stored(doc *spec.Resource, now *store.Resource) (json.RawMessage, error) {
	b, err := doc.JSON(spec.Minimal)
	if err != nil || doc.Secret == nil {
		return b, err
	}
	sealed := ch.sealed[doc.Name]
	if sealed == nil {
		if sealed, err = sealedOf(now.Document); err != nil {
			return nil, fmt.Errorf("resource %s: %w", doc.Key(), err)
		}
	}
	return withSealed(b, sealed)
}

// withSealed adds sealed values to a Secret's JSON.
func withSealed(document []byte, sealed *seal.Sealed) (json.RawMessage, error) {
	b, err := json.Marshal(sealed)
	if err != nil {
		return nil, fmt.Errorf("sealed values: %w", err)
	}
	return fmt.Appendf(nil, `%s,%q:%s}`, document[:len(document)-1], sealedField, b), nil
}

// opened gives a Secret with all its values, to be sealed anew at once.
func (w *sealing) opened(keys *seal.Keys) (map[string]hidden.Text, error) {
	if w.sealed == nil {
		return nil, fmt.Errorf("secret %s is stored without sealed values", w.doc.Name)
	}
	values := map[string]hidden.Text{}
	for key := range w.sealed.Values {
		v, err := keys.Open(w.place, w.sealed, key)
		if err != nil {
			return nil, fmt.Errorf("secret %s, key %s, cannot be opened: %w", w.doc.Name, key, err)
		}
		values[key] = v
	}
	return values, nil
}

// revisionDocs reads the document of an earlier revision as if it were written now. A Secret's values are opened, so that
// they are sealed by the key of today.
func (c *Control) revisionDocs(l *archive.Line) ([]spec.Resource, error) {
	docs, errs := spec.Parse(fmt.Sprintf("revision %d", l.Revision), shown(l.Kind, l.Document))
	if len(errs) > 0 {
		return nil, invalid(errs)
	}
	for i := range docs {
		d := &docs[i]
		d.Revision = 0 // it was written for another time
		if d.Secret == nil {
			continue
		}
		keys, err := c.secrets.usable()
		if err != nil {
			return nil, sealProblem(err)
		}
		w := newSealing(&c.secrets, d, store.Resource{Kind: l.Kind, Name: l.Name, Document: l.Document})
		values, err := w.opened(keys)
		if err != nil {
			return nil, sealProblem(fmt.Errorf("revision %d of %w", l.Revision, err))
		}
		d.Secret = &spec.Secret{Name: d.Name, Data: values}
	}
	return docs, nil
}

func (c *Control) secretRoutes(a huma.API) {
	register(a, operation(http.MethodPost, "/secrets/rotate", "rotateSecrets", "Seal everything anew that is sealed, under fresh data keys", 0),
		func(ctx context.Context, in *withBody[api.RotateRequest]) (*body[api.Rotation], error) {
			r, err := c.rotateSecrets(ctx, in.actor(), &in.Body)
			return &body[api.Rotation]{r}, err
		})
}
