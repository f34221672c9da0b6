package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/edge"
	"steerpoint/internal/logfile"
)

// gatewayLimits puts the limits of the settings into what the gateway is told.
func gatewayLimits(cfg *edge.Config, s *settings.EdgeLimits) error {
	cfg.Proxies = settings.Prefixes(s.ProxyProtocol)
	cfg.MaxHead, cfg.MaxTarget, cfg.MaxField, cfg.MaxFields = int(s.MaxHead), int(s.MaxTarget), int(s.MaxField), s.MaxFields
	cfg.BodyRate, cfg.BodyGrace, cfg.BodyMemory = int(s.BodyRate), s.BodyGrace, int64(s.BodyMemory)
	cfg.WriteTimeout, cfg.ServerTiming = s.WriteTimeout, s.ServerTiming
	for name, d := range map[string]time.Duration{"bodyGrace": s.BodyGrace, "writeTimeout": s.WriteTimeout} {
		if d < 0 {
			return fault.Usage(fmt.Sprintf("edge.%s in steer.yaml is %s", name, d), "give a duration such as 10s, or leave it out")
		}
	}
	if s.MaxFields < 0 || s.AccessLogKeep < 0 {
		return fault.Usage("a number in steer.yaml (edge.maxFields, edge.accessLogKeep) is negative", "give a positive one, or leave it out")
	}
	if s.MaxHead > 64<<10 {
		return fault.Usage("edge.maxHead in steer.yaml is above 64KiB", "give a size up to 64KiB, or leave it out")
	}
	return gatewayTracing(cfg, s.Tracing)
}

func gatewayTracing(cfg *edge.Config, t *settings.EdgeTracing) error {
	if t == nil {
		return nil
	}
	parents, ok := map[string]edge.Parents{"": edge.AllParents, "all": edge.AllParents, "trusted": edge.TrustedParents, "none": edge.NoParents}[t.Parents]
	if !ok {
		return fault.Usage(fmt.Sprintf("edge.tracing.parents in steer.yaml is %q", t.Parents), "use all, trusted or none")
	}
	if t.Endpoint == "" || t.Sample < 0 || t.Sample > 1 {
		return fault.Usage("edge.tracing in steer.yaml has no endpoint, or a sample that is not 0 to 1", "write it like tracing: {endpoint: http://127.0.0.1:4318, sample: 0.01}")
	}
	cfg.Tracing = &edge.Tracing{Endpoint: t.Endpoint, Headers: t.Headers, Ratio: t.Sample, Parents: parents, Version: version}
	if host, err := os.Hostname(); err == nil {
		cfg.Tracing.Instance = host
	}
	return nil
}

// reopenOnHangup opens the access log anew at each SIGHUP, until ctx ends.
func reopenOnHangup(ctx context.Context, f *logfile.File, log *slog.Logger) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
		}
		if err := f.Reopen(); err != nil {
			log.ErrorContext(ctx, "the access log cannot be opened anew; the file that was open stays in use", "error", err)
		}
	}
}
