package main

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWeb_RefusesInvalidArgumentsAndNamesThem(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	const nodes = "--nodes=redis://:geheim@a,redis://b,redis://c"
	refuses(t, []string{"web"}, map[string][]string{
		"no nodes: set --nodes": {},
		`--listen must be HOST:PORT, such as 127.0.0.1:8379, not "localhost"`: {nodes, "--listen=localhost"},
		"choose another address, or port 0":                                   {nodes, "--listen=" + busy.Addr().String()},
		"--interval must be between 200ms and 1h, not 1ms":                    {nodes, "--interval=1ms"},
		"--examine-every must be between 10s and 24h, not 1s":                 {nodes, "--examine-every=1s"},
		"--restart-guard must be between 0s and 336h, not -1s":                {nodes, "--restart-guard=-1s"},
		"--restart-guard must be between 0s and 336h, not 337h":               {nodes, "--restart-guard=337h"},
		`"d:6379" is not the address of a node`:                               {nodes, "--durable=d:6379"},
		"control character":                                                   {nodes, "--key-prefix=a\x01"},
		"--allow-unlock":                                                      {nodes, "--alow-unlock"},
	})
}
