package control

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steerpoint/control/api"
	"steerpoint/control/internal/zonekeys"
	"steerpoint/internal/hidden"
	"steerpoint/internal/seal"
)

// ZoneInput names a zone. It is exported for the frame of the API.
type ZoneInput struct {
	Who
	Zone string `path:"zone" maxLength:"254" doc:"domain name of the zone" example:"gslb.example.net"`
}

type zoneBody[T any] struct {
	ZoneInput
	Body T
}

func (c *Control) dnssecRoutes(a huma.API) {
	register(a, operation(http.MethodGet, "/dnssec", "signedZones", "Signed zones: keys, what is under way, DS for the parent", 0),
		func(context.Context, *Who) (*body[api.DNSSEC], error) {
			return &body[api.DNSSEC]{c.signedView()}, nil
		})
	register(a, operation(http.MethodPost, "/dnssec/{zone}/roll", "rollZoneKey", "Begin the roll of a key of a zone", 0),
		func(ctx context.Context, in *zoneBody[api.RollRequest]) (*body[api.SignedZone], error) {
			return c.zoneAnswer(ctx, &in.ZoneInput, in.Body.Reason, func(k *keptKeys, wall time.Time, secrets map[string]hidden.Text) ([]string, error) {
				return k.state.Roll(wall, in.Body.Key == api.RoleKSK, k.policy, c.keyMaker(k, wall, secrets))
			})
		})
	register(a, operation(http.MethodPost, "/dnssec/{zone}/parent", "noteParent", "Say that the DS of a zone was seen at the parent, or that it is gone from there", 0),
		func(ctx context.Context, in *zoneBody[api.ParentRequest]) (*body[api.SignedZone], error) {
			return c.zoneAnswer(ctx, &in.ZoneInput, in.Body.Reason, func(k *keptKeys, wall time.Time, _ map[string]hidden.Text) ([]string, error) {
				if in.Body.DS == "gone" {
					return k.state.ForgetDS(k.policy)
				}
				return k.state.DSSeen(wall, k.policy)
			})
		})
}

// zoneAnswer changes the keys of a zone by f, hands out what came of it, and gives the zone as it is then.
func (c *Control) zoneAnswer(ctx context.Context, in *ZoneInput, reason string,
	f func(*keptKeys, time.Time, map[string]hidden.Text) ([]string, error),
) (*body[api.SignedZone], error) {
	d := &c.dnssec
	if err := d.gate.enter(ctx); err != nil {
		return nil, err
	}
	defer d.gate.leave()
	name := strings.ToLower(strings.TrimSuffix(in.Zone, ".")) + "."
	k := d.get(name)
	if k == nil || k.policy == nil {
		return nil, notFound("no zone %s is signed here; `steer dnssec status` shows those that are", strings.TrimSuffix(name, "."))
	}
	next := *k
	next.state = next.state.Clone()
	secrets := map[string]hidden.Text{}
	news, err := f(&next, c.wallNow(), secrets)
	if conflict, ok := errors.AsType[*zonekeys.ConflictError](err); ok {
		return nil, problem(http.StatusConflict, api.CodeZoneState, "The zone is not in a state for that",
			fmt.Sprintf("zone %s: %s; nothing was changed", strings.TrimSuffix(name, "."), conflict.Why))
	}
	if err != nil {
		return nil, sealProblem(err)
	}
	if err = c.writeZoneKeys(ctx, &next, secrets, in.actor(), reason, news); err == nil {
		err = c.handOutKeys(ctx)
	}
	if errors.Is(err, seal.ErrNoKey) || errors.Is(err, seal.ErrDamaged) {
		return nil, sealProblem(err)
	}
	if err != nil {
		return nil, err
	}
	return &body[api.SignedZone]{c.signedViewOf(name)}, nil
}

// signedView is every zone that has keys, by name.
func (c *Control) signedView() api.DNSSEC {
	out := api.DNSSEC{Zones: []api.SignedZone{}}
	for _, n := range slices.Sorted(maps.Keys(c.dnssec.all())) {
		out.Zones = append(out.Zones, c.signedViewOf(n))
	}
	return out
}

func (c *Control) signedViewOf(name string) api.SignedZone {
	out := c.dnssec.viewOf(name)
	out.Parent = c.parents.view(name)
	return out
}

func (d *dnssec) viewOf(name string) api.SignedZone {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.zones[name]
	out := api.SignedZone{
		Zone: strings.TrimSuffix(name, "."), State: api.ZoneOff, Keys: []api.ZoneKey{}, DS: []string{}, Next: k.state.Next(),
	}
	if k.policy == nil {
		out.Next = ""
	} else {
		out.State = stateOfZone(&k.state)
	}
	if k.policy != nil && k.state.Waits() && d.holds != "" {
		out.Holds = "waits stand still, since these name servers do not have the newest keys: " + d.holds
	}
	for i := range k.state.Keys {
		out.Keys = append(out.Keys, zoneKeyView(&k.state.Keys[i]))
	}
	if want := k.state.WantsDS(); want != nil && !k.state.Leaving {
		out.DS = append(out.DS, name+" IN DS "+want.DS(name))
	}
	return out
}

// stateOfZone says how a configured zone stands.
func stateOfZone(s *zonekeys.State) string {
	seen := slices.ContainsFunc(s.Keys, func(k zonekeys.Key) bool { return k.KSK && k.Stage == zonekeys.Active })
	switch {
	case !s.Signed():
		return api.ZoneOff
	case s.Leaving:
		return api.ZoneLeaving
	case seen:
		return api.ZoneSigned
	}
	return api.ZoneIsland
}

func zoneKeyView(k *zonekeys.Key) api.ZoneKey {
	role := api.RoleZSK
	if k.KSK {
		role = api.RoleKSK
	}
	return api.ZoneKey{
		Tag: k.Tag, Role: role, Stage: string(k.Stage), Made: k.Made, Since: k.Since, WaitSeconds: k.Wait.Seconds(),
		DNSKEY: fmt.Sprintf("%d 3 13 %s", k.Flags(), base64.StdEncoding.EncodeToString(k.Public)),
	}
}
