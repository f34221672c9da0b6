package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// bridge gives etcd a logger that writes to ours. What etcd calls fatal (a write-ahead log that cannot be written, say)
// would end the process; here it ends the goroutine that met it and is handed to fail: name servers must go on.
func bridge(log *slog.Logger, fail func(error)) *zap.Logger {
	h := hook{fail}
	return zap.New(core{log: log}, zap.WithFatalHook(h), zap.WithPanicHook(h))
}

// unready is what a new store says as an error until its first snapshot is written; it tries again by itself.
const unready = "failed to update storage version"

type hook struct{ fail func(error) }

// OnWrite implements zapcore.CheckWriteHook.
func (h hook) OnWrite(ce *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(ce.Message)
	for _, f := range fields {
		if cause, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			err = fmt.Errorf("%s: %w", ce.Message, cause)
		}
	}
	h.fail(err)
	runtime.Goexit()
}

// core implements zapcore.Core over slog. etcd's info lines are debug lines here: they tell of its inner life.
type core struct {
	log    *slog.Logger
	fields []zapcore.Field
}

func level(l zapcore.Level) slog.Level {
	switch {
	case l <= zapcore.InfoLevel:
		return slog.LevelDebug
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelError
}

// Enabled implements zapcore.LevelEnabler.
func (c core) Enabled(l zapcore.Level) bool {
	return c.log.Enabled(context.Background(), level(l))
}

// With implements zapcore.Core.
func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{c.log, append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

// Check implements zapcore.Core.
func (c core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// remarks are what etcd warns of at every healthy start of a store without listeners. They are debug lines here, or an
// operator would learn to skip warnings.
func remarks(message string) bool {
	for _, m := range [...]string{
		"running etcd with", "Running http and grpc server on single port", "simple token is not cryptographically signed",
		"failed to update storage version", "Failed to detect schema version", "exceeded recommended request limit",
	} {
		if strings.Contains(message, m) {
			return true
		}
	}
	return false
}

// Write implements zapcore.Core.
func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if remarks(e.Message) {
		e.Level = zapcore.DebugLevel
		if !c.Enabled(e.Level) {
			return nil
		}
	}
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range c.fields {
		f.AddTo(enc)
	}
	for _, f := range fields {
		f.AddTo(enc)
	}
	attrs := make([]slog.Attr, 0, len(enc.Fields)+1)
	attrs = append(attrs, slog.String("part", "store"))
	for k, v := range enc.Fields {
		attrs = append(attrs, slog.Any(k, v))
	}
	l := level(e.Level)
	if e.Message == unready {
		l = slog.LevelDebug
	}
	c.log.LogAttrs(context.Background(), l, e.Message, attrs...)
	return nil
}

// Sync implements zapcore.Core.
func (core) Sync() error { return nil }
