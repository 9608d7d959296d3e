package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

// taking calls one of those that take locks, and returns the kind of the lock that it got, which it releases.
type taking func(ctx context.Context, l *redlock.Locker, name string, opts []redlock.LockOption) (redlock.Kind, error)

// calls are for one name or several, for a handle or a function, with a wait or without.
var calls = []struct {
	name string
	call taking
}{
	{"Lock", handle((*redlock.Locker).Lock)},
	{"TryLock", handle((*redlock.Locker).TryLock)},
	{"Do", function((*redlock.Locker).Do)},
	{"TryDo", function((*redlock.Locker).TryDo)},
	{"LockAll", handles((*redlock.Locker).LockAll)},
	{"TryLockAll", handles((*redlock.Locker).TryLockAll)},
	{"DoAll", functionOfAll((*redlock.Locker).DoAll)},
	{"TryDoAll", functionOfAll((*redlock.Locker).TryDoAll)},
}

func handle(take func(*redlock.Locker, context.Context, string, ...redlock.LockOption) (*redlock.Lock, error)) taking {
	return func(ctx context.Context, l *redlock.Locker, name string, opts []redlock.LockOption) (redlock.Kind, error) {
		lock, err := take(l, ctx, name, opts...)
		if err != nil {
			return "", err
		}
		return lock.Kind(), lock.Unlock(ctx)
	}
}

func handles(take func(*redlock.Locker, context.Context, []string, ...redlock.LockOption) (*redlock.Locks, error)) taking {
	return func(ctx context.Context, l *redlock.Locker, name string, opts []redlock.LockOption) (redlock.Kind, error) {
		locks, err := take(l, ctx, []string{name, name + "-too"}, opts...)
		if err != nil {
			return "", err
		}
		return locks.Get(name).Kind(), locks.Unlock(ctx)
	}
}

func function(
	do func(*redlock.Locker, context.Context, string, func(context.Context, *redlock.Lock) error, ...redlock.LockOption) error,
) taking {
	return func(ctx context.Context, l *redlock.Locker, name string, opts []redlock.LockOption) (kind redlock.Kind, err error) {
		err = do(l, ctx, name, func(_ context.Context, lock *redlock.Lock) error {
			kind = lock.Kind()
			return nil
		}, opts...)
		return kind, err
	}
}

func functionOfAll(
	do func(*redlock.Locker, context.Context, []string, func(context.Context, *redlock.Locks) error, ...redlock.LockOption) error,
) taking {
	return func(ctx context.Context, l *redlock.Locker, name string, opts []redlock.LockOption) (kind redlock.Kind, err error) {
		err = do(l, ctx, []string{name, name + "-too"}, func(_ context.Context, locks *redlock.Locks) error {
			kind = locks.Get(name).Kind()
			return nil
		}, opts...)
		return kind, err
	}
}

// Each cell has what the calls of the columns come to with an option of the row: for an exclusive lock, a shared one and a slot, in this
// order, the kind of the lock that they get (e, s or p), or - for ErrInvalid.
var grid = map[string]struct {
	option redlock.LockOption
	cells  string
}{
	//                                            Lock TryLock Do TryDo LockAll TryLockAll DoAll TryDoAll
	"no option":          {nil, "                      esp  esp    esp esp   e--     e--        e--   e--"},
	"TTL":                {redlock.TTL(long), "        esp  esp    esp esp   e--     e--        e--   e--"},
	"RenewFor":           {redlock.RenewFor(redlock.NoLimit), " esp esp esp esp e-- e-- e-- e--"},
	"RenewFor(0)":        {redlock.RenewFor(0), "      esp  esp    esp esp   e--     e--        e--   e--"},
	"RenewFor, negative": {redlock.RenewFor(-1), "      ---  ---    --- ---   ---     ---        ---   ---"},
	"Grace":              {redlock.Grace(1), "         esp  esp    esp esp   e--     e--        e--   e--"},
	"MaxWait":            {redlock.MaxWait(long), "    esp  ---    esp ---   e--     ---        e--   ---"},
	"MaxOutage":          {redlock.MaxOutage(long), "  esp  ---    esp ---   e--     ---        e--   ---"},
	"Metadata":           {redlock.Metadata("text"), " esp  esp    esp esp   e--     e--        e--   e--"},
	"TokenSource":        {redlock.TokenSource(nil), " esp  esp    esp esp   e--     e--        e--   e--"},
	"Owner":              {redlock.Owner("me"), "      esp  esp    esp esp   e--     e--        e--   e--"},
	"Reentrant":          {redlock.Reentrant(), "      esp  esp    esp esp   ---     ---        ---   ---"},
	"TTL(0)":             {redlock.TTL(0), "           ---  ---    --- ---   ---     ---        ---   ---"},
	"Grace(0)":           {redlock.Grace(0), "         esp  esp    esp esp   e--     e--        e--   e--"},
	"MaxWait(0)":         {redlock.MaxWait(0), "       esp  ---    esp ---   e--     ---        e--   ---"},
	"MaxOutage(0)":       {redlock.MaxOutage(0), "     esp  ---    esp ---   e--     ---        e--   ---"},
	"Metadata, empty":    {redlock.Metadata(""), "     esp  esp    esp esp   e--     e--        e--   e--"},
	"Owner, empty":       {redlock.Owner(""), "        ---  ---    --- ---   ---     ---        ---   ---"},
	"Shared":             {redlock.Shared(), "         ss-  ss-    ss- ss-   ---     ---        ---   ---"},
	"Slots":              {redlock.Slots(2), "         p-p  p-p    p-p p-p   ---     ---        ---   ---"},
	"Slots, none":        {redlock.Slots(0), "         ---  ---    --- ---   ---     ---        ---   ---"},
	"Slots, many":        {redlock.Slots(1025), "      ---  ---    --- ---   ---     ---        ---   ---"},
	"Slots, beyond":      {redlock.Slots(65537), "     ---  ---    --- ---   ---     ---        ---   ---"},
}

var letters = map[redlock.Kind]string{redlock.KindExclusive: "e", redlock.KindShared: "s", redlock.KindSlot: "p"}

func TestCalls_WithEachKindAndEachOption(t *testing.T) {
	t.Parallel()
	locker := onMini(t, 1).locker()
	for row, g := range grid {
		var came []string
		for _, c := range calls {
			cell := ""
			for i, opts := range [][]redlock.LockOption{nil, {redlock.Shared()}, {redlock.Slots(3)}} {
				if g.option != nil {
					opts = append(opts, g.option)
				}
				got, err := c.call(t.Context(), locker, fmt.Sprint(row, c.name, i), opts)
				switch {
				case err == nil:
					cell += letters[got]
				case errors.Is(err, redlock.ErrInvalid):
					cell += "-"
				default:
					require.NoError(t, err, "%s with %s", c.name, row)
				}
			}
			came = append(came, cell)
		}
		require.Equal(t, strings.Fields(g.cells), came, row)
	}
}

// Who adds a call or an option adds what they come to.
func TestCalls_TheGridHasEachCallAndEachOption(t *testing.T) {
	t.Parallel()
	var taking []string
	options := map[string]bool{}
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file.Name(), "_test.go") || !strings.HasSuffix(file.Name(), ".go") {
			continue
		}
		source, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range source.Decls {
			f, is := d.(*ast.FuncDecl)
			if !is || !f.Name.IsExported() {
				continue
			}
			if results := f.Type.Results; f.Recv == nil && results != nil {
				if result, is := results.List[0].Type.(*ast.Ident); is && result.Name == "LockOption" {
					options[f.Name.Name] = true
				}
			}
			params := f.Type.Params.List
			if f.Recv != nil && len(params) > 0 {
				if rest, is := params[len(params)-1].Type.(*ast.Ellipsis); is && rest.Elt.(*ast.Ident).Name == "LockOption" {
					taking = append(taking, f.Name.Name)
				}
			}
		}
	}
	var have []string
	for _, c := range calls {
		have = append(have, c.name)
	}
	require.ElementsMatch(t, append(have, "Attach"), taking)
	require.Subset(t, slices.Collect(maps.Keys(grid)), slices.Collect(maps.Keys(options)))
	require.NotEmpty(t, options)
}
