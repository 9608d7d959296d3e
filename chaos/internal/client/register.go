package client

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

// registerBound is how long a register may take to answer.
const registerBound = time.Second

// registers are what locks protect: for each name one on Redis, one in PostgreSQL, and one that checks nothing.
type registers struct {
	redis *redis.Pool
	db    *sql.DB
	table *fence.Table
}

func openRegisters(c Config) (r registers, err error) {
	r.redis = &redis.Pool{MaxIdle: 8, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", c.Register, redis.DialReadTimeout(registerBound), redis.DialWriteTimeout(registerBound),
			redis.DialConnectTimeout(registerBound))
	}}
	if r.table, err = fence.NewTable(fence.PostgreSQL, "chaos_guard"); err != nil {
		return r, err
	}
	if r.db, err = sql.Open("pgx", c.Postgres); err != nil {
		return r, err
	}
	r.db.SetMaxOpenConns(4)
	return r, nil
}

// MakeRegisters makes the tables of the registers in a database.
func MakeRegisters(ctx context.Context, source string) error {
	table, err := fence.NewTable(fence.PostgreSQL, "chaos_guard")
	if err != nil {
		return err
	}
	db, err := sql.Open("pgx", source)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, table.Create())
	if err == nil {
		_, err = db.ExecContext(ctx, "CREATE TABLE chaos_register (name text PRIMARY KEY, value text NOT NULL)")
	}
	return err
}

// Write writes a value of its own into a register, with the fence of the hold unless the register is plain.
func (w *Worker) Write(ctx context.Context, h *Hold, register string) {
	w.made++
	call := history.Op{Kind: history.Write, Name: h.Name(), Hold: h.ID, Register: register, Value: fmt.Sprintf("%s#%d", h.ID, w.made)}
	if register != history.Plain {
		call.Fence = h.Fence()
	}
	op := w.begin(call)
	ctx, cancel := context.WithTimeout(ctx, registerBound)
	defer cancel()
	var err error
	switch register {
	case history.Redis:
		_, err = w.onRedis(func(c redis.Conn) ([]any, error) {
			do := fence.DoFunc(func(ctx context.Context, command string, args ...any) (any, error) {
				return redis.DoContext(c, ctx, command, args...)
			})
			return fence.Run(ctx, do, h.Name()+":guard", h.Fence(), fence.Command{"SET", h.Name() + ":value", op.Value})
		})
	case history.Postgres:
		err = w.writePostgres(ctx, h, op.Value)
	case history.Plain:
		_, err = w.onRedis(func(c redis.Conn) ([]any, error) {
			_, err := redis.DoContext(c, ctx, "SET", h.Name()+":plain", op.Value)
			return nil, err
		})
	}
	w.endRegister(op, err)
}

func (w *Worker) writePostgres(ctx context.Context, h *Hold, value string) error {
	tx, err := w.registers.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := w.registers.table.Check(ctx, tx, h.Name(), h.Fence()); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO chaos_register (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, h.Name(), value)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// Read reads a register.
func (w *Worker) Read(ctx context.Context, name, register, hold string) {
	op := w.begin(history.Op{Kind: history.Read, Name: name, Register: register, Hold: hold})
	ctx, cancel := context.WithTimeout(ctx, registerBound)
	defer cancel()
	var err error
	switch register {
	case history.Redis:
		var values []any
		values, err = w.onRedis(func(c redis.Conn) ([]any, error) {
			return redis.Values(redis.DoContext(c, ctx, "MGET", name+":guard", name+":value"))
		})
		if err == nil && values[0] != nil {
			var seen string
			if _, err = redis.Scan(values, &seen, &op.Value); err == nil {
				op.Fence, err = strconv.ParseUint(seen, 10, 64)
			}
		}
	case history.Postgres:
		err = w.registers.db.QueryRowContext(ctx, `SELECT fence, value FROM chaos_guard JOIN chaos_register ON name = resource
			WHERE resource = $1`, name).Scan(&op.Fence, &op.Value)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
	case history.Plain:
		_, err = w.onRedis(func(c redis.Conn) ([]any, error) {
			var err error
			op.Value, err = redis.String(redis.DoContext(c, ctx, "GET", name+":plain"))
			if errors.Is(err, redis.ErrNil) {
				err = nil
			}
			return nil, err
		})
	}
	w.endRegister(op, err)
}

// endRegister records the end of a write or read. Every error but ErrStale leaves it open what became of it.
func (w *Worker) endRegister(op *history.Op, err error) {
	switch {
	case errors.Is(err, fence.ErrStale):
		op.Err = history.Stale
	case err != nil:
		op.Err = history.Unknown
		w.log.Info("register", "register", op.Register, "name", op.Name, "error", err)
	}
	w.recorder.End(op)
}

func (w *Worker) onRedis(do func(redis.Conn) ([]any, error)) ([]any, error) {
	c := w.registers.redis.Get()
	defer c.Close()
	return do(c)
}
