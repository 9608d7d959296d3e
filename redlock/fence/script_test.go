package fence_test

import (
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by their SHA-1
	"encoding/hex"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock/fence"
)

func newScript(t *testing.T, source string) *fence.Script {
	t.Helper()
	script, err := fence.NewScript(source)
	require.NoError(t, err)
	return script
}

// With a wrong hash every call takes two round trips, and nobody notices.
func TestRun_ThePresetHashIsThatOfTheScript(t *testing.T) {
	sum := sha1.Sum([]byte(fence.CommandsSource)) //nolint:gosec // see the import
	require.Equal(t, hex.EncodeToString(sum[:]), fence.CommandsHash)
}

func TestScript_SendsItsSourceOnlyIfTheServerDoesNotKnowIt(t *testing.T) {
	c := alone(t)
	script := newScript(t, "return 1")
	for name, run := range map[string]func() error{
		"commands": func() error {
			_, err := fence.Run(t.Context(), c, guard, 33)
			return err
		},
		"script": func() error {
			_, err := script.Run(t.Context(), c, guard, 33, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, run())
			c.sent = nil
			require.NoError(t, run())
			require.Equal(t, []string{"EVALSHA"}, c.sent)
			c.do(t, "SCRIPT", "FLUSH")
			c.sent = nil
			require.NoError(t, run())
			require.NoError(t, run())
			require.Equal(t, []string{"EVALSHA", "EVAL", "EVALSHA"}, c.sent)
		})
	}
}

func TestScript_SendsItsSourceIfTheServerReturnsNoHash(t *testing.T) {
	c := alone(t)
	c.lose = "SCRIPT"
	script := newScript(t, "return 'done'")
	for range 2 {
		c.sent = nil
		reply, err := redis.String(script.Run(t.Context(), c, guard, 33, nil))
		require.NoError(t, err)
		require.Equal(t, "done", reply)
		require.Equal(t, []string{"SCRIPT", "EVAL"}, c.sent)
	}
}

func TestScript_RunsAsItWouldAlone(t *testing.T) {
	c := alone(t)
	for source, want := range map[string]any{
		"return {#KEYS, #ARGV, KEYS[1], KEYS[2], ARGV[1], ARGV[3]}": []any{
			int64(2), int64(3), []byte("k1"), []byte("k2"), []byte("a"), []byte("2.5")},
		"-- nothing":                            nil,
		"return nil":                            nil,
		"return false":                          nil,
		"return 7":                              int64(7),
		"return {}":                             []any{},
		"return {0, 'seen'}":                    []any{int64(0), []byte("seen")},
		"return {ok = 'FINE'}":                  "FINE",
		"local a = 1 -- no more":                nil,
		"if KEYS[1] then return 1 end return 2": int64(1),
	} {
		reply, err := newScript(t, source).Run(t.Context(), c, guard, 33, []string{"k1", "k2"}, "a", 2, 2.5)
		require.NoError(t, err, source)
		require.Equal(t, want, reply, source)
	}
}

func TestScript_AFailureUndoesNothing(t *testing.T) {
	c := alone(t)
	for source, text := range map[string]string{
		"redis.call('SET', 'a', 1) return redis.error_reply('POOR too little')": "POOR too little",
		"redis.call('SET', 'a', 1) return redis.call('INCR', KEYS[1])":          "WRONGTYPE",
		"redis.call('SET', 'a', 1) error('broken')":                             "user_script:1: broken",
		"redis.call('SET', 'a', 1)\nerror('broken')":                            "user_script:2: broken",
	} {
		c.do(t, "DEL", "a", guard, "list")
		c.do(t, "RPUSH", "list", 1)
		_, err := newScript(t, source).Run(t.Context(), c, guard, 33, []string{"list"})
		var refusal redis.Error
		require.ErrorAs(t, err, &refusal)
		require.ErrorContains(t, err, text)
		require.Equal(t, "1", c.get(t, "a"))
		require.Equal(t, "33", c.get(t, guard))
	}
}

func TestScript_ASourceThatIsNotLuaDoesNothing(t *testing.T) {
	c := alone(t)
	_, err := newScript(t, "this is no Lua").Run(t.Context(), c, guard, 33, nil)
	require.ErrorContains(t, err, "Error compiling script")
	require.Empty(t, c.get(t, guard))
}

func TestScript_IsNotCalledWithALowerFence(t *testing.T) {
	c := alone(t)
	script := newScript(t, "return redis.call('SET', KEYS[1], ARGV[1])")
	_, err := script.Run(t.Context(), c, guard, 34, []string{"a"}, "new")
	require.NoError(t, err)
	_, err = script.Run(t.Context(), c, guard, 33, []string{"a"}, "late")
	requireStale(t, err, guard, 33, 34)
	require.Equal(t, "new", c.get(t, "a"))
}

func TestNewScript_RejectsAnEmptySourceAndAShebang(t *testing.T) {
	_, err := fence.NewScript(" \n")
	requireInvalid(t, err, "the script is empty")
	_, err = fence.NewScript("#!lua flags=no-writes\nreturn 1")
	requireInvalid(t, err, `the script begins with "#!lua flags=no-writes": a script behind a check has no shebang`)
}
