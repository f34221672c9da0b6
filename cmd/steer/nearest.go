package main

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/internal/echo16"
)

// openNearest starts to answer probes of kind udp16, where --listen nearest asks for it; nil where it does not. Its
// sockets go on to the next program at an upgrade.
func openNearest(p *process, s *settings.Settings, reg prometheus.Registerer, log *slog.Logger) (*echo16.Responder, error) {
	addr := s.Listen[settings.RoleNearest]
	if addr == "" {
		return nil, nil
	}
	bind, err := s.Bind(settings.RoleNearest)
	if err != nil {
		return nil, err
	}
	r, err := echo16.New(echo16.Config{Listen: bind, Inherited: p.sockets}, reg, log.With("plane", settings.RoleNearest))
	if err != nil {
		return nil, startFault(settings.RoleNearest, addr, err)
	}
	p.answer("echo for probes", r.Run)
	return r, nil
}
