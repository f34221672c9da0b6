package control

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steerpoint/control/api"
	"steerpoint/control/internal/store"
	"steerpoint/internal/hidden"
	"steerpoint/spec"
)

func (c *Control) certificateRoutes(a huma.API) {
	register(a, operation(http.MethodPost, "/certificates/order", "orderCertificate", "Try now to order a certificate whose last try failed, or renew one that is valid", 0),
		func(ctx context.Context, in *withBody[api.OrderRequest]) (*body[api.CertificateStatus], error) {
			v, err := c.orderNow(ctx, in.actor(), &in.Body)
			if err != nil {
				return nil, err
			}
			return &body[api.CertificateStatus]{*v}, nil
		})
}

// orderNow has a certificate tried at once. A valid one is left alone unless it is to be renewed: authorities count.
func (c *Control) orderNow(ctx context.Context, actor string, r *api.OrderRequest) (*api.CertificateStatus, error) {
	set := c.edges.config()
	if set == nil {
		return nil, problem(http.StatusServiceUnavailable, api.CodeNotReady, "Not ready", "the configuration is not read yet: ask again in a moment")
	}
	w := c.wantedOrders(set)[r.Name]
	if w == nil {
		return nil, notFound("no certificate %s is ordered by control: steer get certificates lists them", r.Name)
	}
	if x := c.orders.get(r.Name); x != nil {
		why := "tried again at once"
		if r.Renew {
			why = "renewed at once"
		}
		if reason := strings.TrimSpace(r.Reason); reason != "" {
			why += ": " + reason
		}
		audit := []store.Audit{{Time: c.wallNow(), Actor: actor, Action: api.ActionUpdate, Kind: string(spec.KindCertificate), Name: r.Name, Reason: why}}
		err := c.changeOrder(ctx, r.Name, audit, func(s *orderState, _ map[string]hidden.Text) bool {
			s.Next = c.wallNow()
			if r.Renew {
				s.Renew, s.Issued = c.wallNow(), time.Time{}
			}
			return false
		})
		if err != nil {
			return nil, storeProblem(err)
		}
	}
	v := c.orderView(w)
	v.Services = certificateUses(set)[r.Name]
	if v.Services == nil {
		v.Services = []string{}
	}
	return &v, nil
}
