package caddylock

import (
	"context"
	"log/slog"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap/exp/zapslog"
)

// handler writes to what is the default log of Caddy when a record comes: a Locker outlives the configuration that it was made for.
// with adds the attributes and groups.
type handler struct {
	with func(slog.Handler) slog.Handler
}

func newHandler() handler { return handler{func(h slog.Handler) slog.Handler { return h }} }

func (h handler) present() slog.Handler {
	const never = slog.Level(127)
	return h.with(zapslog.NewHandler(caddy.Log().Core(), zapslog.WithName(namespace+"."+name), zapslog.AddStacktraceAt(never)))
}

func (h handler) Enabled(ctx context.Context, l slog.Level) bool { return h.present().Enabled(ctx, l) }

func (h handler) Handle(ctx context.Context, r slog.Record) error { return h.present().Handle(ctx, r) }

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{func(to slog.Handler) slog.Handler { return h.with(to).WithAttrs(attrs) }}
}

func (h handler) WithGroup(group string) slog.Handler {
	return handler{func(to slog.Handler) slog.Handler { return h.with(to).WithGroup(group) }}
}
