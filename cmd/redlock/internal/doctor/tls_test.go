package doctor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

func TestExamine_LooksAtTheCertificate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lasts    time.Duration
		check    string // "" means that nothing is found
		severity doctor.Severity
		shows    string
	}{
		"lasts long":    {lasts: 90 * 24 * time.Hour},
		"expires soon":  {10 * 24 * time.Hour, "certificate", doctor.Warning, "expires in 10.0 days"},
		"is not for us": {-time.Minute, "reachable", doctor.Fault, "certificate has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cert := testredis.NewCertificate(t, test.lasts, "127.0.0.1")
			stopped := testredis.Mini(t, 1)[0] // whose port nobody else takes
			stopped.Stop()
			all := append(wellSetServers(t, 1, append(cert.Args(), "--tls-port", portOf(t, stopped.Addr()))...), wellSetServers(t, 2)...)
			servers := serversOf(all)
			servers[0] = serverAt(stopped.Addr())
			servers[0].TLS = cert.Trusts()
			servers[0].TLS.ServerName = "127.0.0.1"
			r := examine(t, servers, patient(doctor.Options{}))
			if test.check == "" {
				requireFindings(t, r)

				servers[0].TLS = nil
				r := finds(t, servers, patient(doctor.Options{}), is(doctor.Fault, "reachable", stopped.Addr()))
				require.Contains(t, r.Findings[0].Fix, "rediss://")
				return
			}
			requireFindings(t, r, is(test.severity, test.check, stopped.Addr()))
			require.Contains(t, r.Findings[0].What, test.shows)
		})
	}
}
