package main

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWeb_RefusesInvalidArgumentsAndNamesThem(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	const nodes = "--nodes=redis://:geheim@a,redis://b,redis://c"
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no nodes":        {nil, "no nodes: set --nodes"},
		"no port":         {[]string{nodes, "--listen=localhost"}, `--listen must be HOST:PORT, such as 127.0.0.1:8379, not "localhost"`},
		"a port in use":   {[]string{nodes, "--listen=" + busy.Addr().String()}, "choose another address, or port 0"},
		"too often":       {[]string{nodes, "--interval=1ms"}, "--interval must be between 200ms and 1h, not 1ms"},
		"examine often":   {[]string{nodes, "--examine-every=1s"}, "--examine-every must be between 10s and 24h, not 1s"},
		"negative guard":  {[]string{nodes, "--restart-guard=-1s"}, "--restart-guard must be between 0s and 8760h, not -1s"},
		"not a node":      {[]string{nodes, "--durable=d:6379"}, `"d:6379" is not the address of a node`},
		"a bad prefix":    {[]string{nodes, "--key-prefix=a\x01"}, "control character"},
		"an unknown flag": {[]string{nodes, "--alow-unlock"}, "--allow-unlock"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errors := call(t.Context(), append([]string{"web"}, test.args...)...)
			assert.Equal(t, exitUsage, code)
			assert.Contains(t, errors, test.want)
			assert.NotContains(t, errors, "geheim")
			assert.Empty(t, out)
		})
	}
}
