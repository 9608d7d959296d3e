package doctor_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// fix carries out what a finding says, which begins with CONFIG SET commands, and examines the servers once more.
func fix(t *testing.T, s *testredis.Process, all []*testredis.Process, r *doctor.Report, o doctor.Options) {
	t.Helper()
	command, _, _ := strings.Cut(r.Findings[0].Fix, " (")
	words := strings.SplitN(command, " ", 4)
	require.Equal(t, []string{"CONFIG", "SET"}, words[:2], command)
	do(t, s, "CONFIG", "SET", words[2], strings.Trim(words[3], `"`))
	requireFindings(t, examine(t, serversOf(all), o))
}

// Each of these is found on the server that has it, with what shows it, and is fixed by the command that the finding names.
func TestExamine_FindsASettingThatDoesNotFit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args     []string
		check    string
		severity doctor.Severity
		shows    string
	}{
		"eviction of keys with a TTL": {[]string{"--maxmemory-policy", "volatile-ttl"}, "eviction", doctor.Fault, `"volatile-ttl"`},
		"eviction of all keys":        {[]string{"--maxmemory-policy", "allkeys-lfu"}, "eviction", doctor.Fault, `"allkeys-lfu"`},
		"writes need replicas":        {[]string{"--min-replicas-to-write", "1"}, "min-replicas", doctor.Fault, "min-replicas-to-write is 1"},
		"idle connections are cut":    {[]string{"--timeout", "5"}, "timeout", doctor.Warning, "timeout is 5 s"},
		"few keys are tracked":        {[]string{"--tracking-table-max-keys", "10"}, "tracking-table", doctor.Warning, "of 10 keys"},
		"messages have no room":       {[]string{"--client-output-buffer-limit", "pubsub", "32768", "8192", "60"}, "buffer-limit", doctor.Warning, "32768 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, all := besideTwo(t, test.args...)
			o := patient(doctor.Options{})
			r := examine(t, serversOf(all), o)
			requireFindings(t, r, is(test.severity, test.check, s.Addr()))
			require.Contains(t, r.Findings[0].What, test.shows)
			fix(t, s, all, r, o)
		})
	}
}
