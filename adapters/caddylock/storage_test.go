package caddylock_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"
	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/adapters/caddylock"
	"github.com/quorumlock/quorumlock/adapters/certmagiclock"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	// bound is how long a test waits for what has to happen: far above what it takes.
	bound = 20 * time.Second
	tick  = 2 * time.Millisecond
)

// load has Caddy run a configuration with a storage that a Caddyfile describes, and returns that. Each load takes the place of the
// one before. log is where its log goes, if there is one.
func load(t *testing.T, file string, log ...string) (*certmagiclock.Storage, error) {
	t.Helper()
	d := caddyfile.NewTestDispenser(file)
	d.Next() // as Caddy reads the global option storage
	d.Next()
	module, err := caddyfile.UnmarshalModule(d, "caddy.storage."+d.Val())
	if err != nil {
		return nil, err
	}
	parts := map[string]any{
		"admin":   map[string]any{"disabled": true, "config": map[string]any{"persist": false}},
		"storage": caddyconfig.JSONModuleObject(module, "module", "redlock", nil),
	}
	for _, name := range log {
		parts["logging"] = map[string]any{"logs": map[string]any{"default": map[string]any{
			"writer": map[string]any{"output": "memory", "name": name},
		}}}
	}
	config, err := json.Marshal(parts)
	require.NoError(t, err)
	if err := caddy.Load(config, true); err != nil {
		return nil, err
	}
	return certmagic.Default.Storage.(*certmagiclock.Storage), nil
}

func stopAtTheEnd(t *testing.T) {
	t.Cleanup(func() { assert.NoError(t, caddy.Stop()) })
}

// connections returns how many connections a server has, beside that which asks.
func connections(t *testing.T, server testredis.Server) int {
	list, err := server.Do("CLIENT", "LIST")
	require.NoError(t, err)
	return strings.Count(string(list.([]byte)), "\n") - 1
}

func TestStorage_IsTheStorageOfCaddyAndLocksOnTheServers(t *testing.T) {
	stopAtTheEnd(t)
	servers, dir := testredis.Real(t, 5, "--requirepass", "a/b"), t.TempDir()
	t.Setenv("REDIS_PASSWORD", "a%2Fb")
	nodes := strings.ReplaceAll(strings.Join(testredis.URLs(servers), " "), "redis://", "redis://:{env.REDIS_PASSWORD}@")
	storage, err := load(t, "storage redlock {\nnodes "+nodes+"\nprefix of-caddy:\nttl 1h\nstorage file_system "+dir+"\n}")
	require.NoError(t, err)
	require.Equal(t, &certmagic.FileStorage{Path: dir}, storage.Unwrap())

	require.NoError(t, storage.Lock(t.Context(), "x"))
	require.Eventually(t, func() bool { // beyond the majority the answers come later
		ttl, err := servers[4].Do("PTTL", "of-caddy:x")
		return err == nil && ttl.(int64) > (30*time.Minute).Milliseconds()
	}, bound, tick)
	servers[0].Stop()
	ok, err := storage.TryLock(t.Context(), "y")
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, storage.Unlock(t.Context(), "y"))
	require.NoError(t, storage.Unlock(t.Context(), "x"))
}

func TestStorage_ALockIsHeldUntilUnlockWhenAnotherConfigurationIsLoaded(t *testing.T) {
	stopAtTheEnd(t)
	server := testredis.Real(t, 1)[0]
	file := func(prefix string) string {
		return fmt.Sprintf("storage redlock {\nnodes %s\nprefix %s\nstorage file_system %s\n}", server.URL(), prefix, t.TempDir())
	}
	first, err := load(t, file("a:"))
	require.NoError(t, err)
	require.NoError(t, first.Lock(t.Context(), "x"))
	second, err := load(t, file("a:"))
	require.NoError(t, err)
	ok, err := second.TryLock(t.Context(), "x")
	require.NoError(t, err)
	require.False(t, ok)
	require.Equal(t, 1, connections(t, server), "both have one Locker")

	third, err := load(t, file("b:"))
	require.NoError(t, err)
	require.NoError(t, third.Lock(t.Context(), "x"))
	require.NoError(t, third.Unlock(t.Context(), "x"))
	require.NoError(t, first.RenewLockLease(t.Context(), "x", time.Minute))
	require.Equal(t, 2, connections(t, server), "the old Locker is open while its lock is held")
	require.NoError(t, first.Unlock(t.Context(), "x"), "it was held until now")
	require.Eventually(t, func() bool { return connections(t, server) == 1 }, bound, tick)
	require.ErrorIs(t, first.Lock(t.Context(), "x"), redlock.ErrClosed)
}

func TestStorage_WithoutItsOwnStorageAndPrefixItHasTheDefaultsOfCaddy(t *testing.T) {
	stopAtTheEnd(t)
	server := testredis.Real(t, 1)[0]
	storage, err := load(t, "storage redlock {\nnodes "+server.URL()+"\n}")
	require.NoError(t, err)
	require.Equal(t, caddy.DefaultStorage, storage.Unwrap())
	require.NoError(t, storage.Lock(t.Context(), "x"))
	exists, err := server.Do("EXISTS", "caddy:x")
	require.NoError(t, err)
	require.EqualValues(t, 1, exists)
	require.NoError(t, storage.Unlock(t.Context(), "x"))
}

func TestStorage_RefusesAConfigurationThatDoesNotFitAndNamesWhatIsWrong(t *testing.T) {
	stopAtTheEnd(t)
	for block, says := range map[string]string{
		"storage redlock":                                                              "nodes: must be there",
		"storage redlock x":                                                            "rong argument count",
		"storage redlock {\nnodes\n}":                                                  "nodes: must be there",
		"storage redlock {\nnodes http://a\n}":                                         "URL 0: scheme",
		"storage redlock {\nnodes redis://a redis://a\n}":                              "URL 1 names the same server as URL 0",
		"storage redlock {\nnodes redis://{env.NOT_SET_HERE}\n}":                       "URL 0",
		"storage redlock {\nnodes redis://a\nnodes\n}":                                 "nodes: must be there",
		"storage redlock {\nnodes redis://a\nnodes redis://a\n}":                       "URL 1 names the same server as URL 0",
		"storage redlock {\nnodes redis://a\nprefix a:\nprefix a:\n}":                  "prefix: given twice",
		"storage redlock {\nnodes redis://a\nprefix {env.NOT_SET_HERE}\n}":             "prefix: evaluated placeholder",
		"storage redlock {\nnodes redis://a\nprefix \"\"\n}":                           "prefix: is empty",
		"storage redlock {\nnodes redis://a\nprefix {unknown}\n}":                      "prefix: unrecognized placeholder {unknown}",
		"storage redlock {\nnodes redis://a\nttl {env.NOT_SET_HERE}\n}":                "ttl: evaluated placeholder",
		"storage redlock {\nnodes redis://a\ntimeout 0s\n}":                            "timeout 0s: must be a duration above zero",
		"storage redlock {\nnodes rediss://a\nca nowhere.pem\n}":                       "ca: open nowhere.pem",
		"storage redlock {\nnodes rediss://a\nca storage_test.go\n}":                   "ca: storage_test.go has no certificate",
		"storage redlock {\nnodes rediss://a\ncertificate a.pem\n}":                    "rong argument count",
		"storage redlock {\nnodes rediss://a\ncertificate a.pem b.pem\n}":              "certificate: open a.pem",
		"storage redlock {\nnodes redis://a\nttl -1s\n}":                               "ttl -1s: must be a duration above zero",
		"storage redlock {\nnodes redis://a\nttl x\n}":                                 "ttl x: must be",
		"storage redlock {\nnodes redis://a\nttl 1ns\n}":                               "1ns",
		"storage redlock {\nnodes redis://a\nttl\n}":                                   "rong argument count",
		"storage redlock {\nnodes redis://a\nprefix a b\n}":                            "rong argument count",
		"storage redlock {\nnodes redis://a\nsize 1\n}":                                "size: only nodes, prefix, ttl, timeout, ca, certificate and storage are known",
		"storage redlock {\nnodes redis://a\nstorage cloud\n}":                         "caddy.storage.cloud",
		"storage redlock {\nnodes redis://a\nstorage redlock {\nnodes redis://b\n}\n}": "has these locks already",
	} {
		_, err := load(t, block)
		require.ErrorContains(t, err, says, block)
	}
	_, err := new(caddylock.Storage).CertMagicStorage()
	require.ErrorContains(t, err, "not provisioned")
}

func TestUnmarshalCaddyfile_MakesTheJSONOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	text := strings.ReplaceAll(string(page), "\n//", "\n")
	_, file, _ := strings.Cut(text, "\t\tstorage redlock {")
	file, _, _ = strings.Cut(file, "\n\t\t}\n")
	_, object, _ := strings.Cut(text, "\t\"storage\": {")
	object, _, _ = strings.Cut(object, "\n\t}\n")
	s := new(caddylock.Storage)
	require.NoError(t, s.UnmarshalCaddyfile(caddyfile.NewTestDispenser("redlock {"+file+"\n}")))
	made, err := json.Marshal(caddyconfig.JSONModuleObject(s, "module", "redlock", nil))
	require.NoError(t, err)
	require.JSONEq(t, "{"+object+"}", string(made))
}
