// Package caddylock is the module caddy.storage.redlock of Caddy (github.com/caddyserver/caddy/v2): it gives another storage of
// Caddy the locks of package redlock, so that several servers obtain and renew a certificate once. Package certmagiclock has what
// these locks do, what a lost lock means, and the traps.
//
// Build a Caddy with it:
//
//	xcaddy build --with github.com/quorumlock/quorumlock/adapters/caddylock
//
// Without xcaddy that is a program which imports this package and github.com/caddyserver/caddy/v2/modules/standard, and whose main
// calls caddycmd.Main of github.com/caddyserver/caddy/v2/cmd.
//
// In the global options of the Caddyfile, the same on all servers:
//
//	{
//		storage redlock {
//			nodes rediss://10.0.0.1 rediss://10.0.0.2
//			nodes rediss://:{env.REDIS_PASSWORD}@10.0.0.3
//			prefix caddy:
//			ttl 8s
//			timeout 300ms
//			ca /etc/redis/ca.pem
//			certificate /etc/redis/caddy.pem /etc/redis/caddy.key
//			storage file_system /mnt/certificates
//		}
//	}
//
// In JSON:
//
//	"storage": {
//		"module": "redlock",
//		"nodes": ["rediss://10.0.0.1", "rediss://10.0.0.2", "rediss://:{env.REDIS_PASSWORD}@10.0.0.3"],
//		"prefix": "caddy:",
//		"ttl": "8s",
//		"timeout": "300ms",
//		"ca": "/etc/redis/ca.pem",
//		"certificate": "/etc/redis/caddy.pem",
//		"key": "/etc/redis/caddy.key",
//		"storage": {"module": "file_system", "root": "/mnt/certificates"}
//	}
//
// [Storage] describes each of these; all but nodes may be left out. Each may have placeholders, such as {env.REDIS_PASSWORD}: in a URL
// the value of such a variable is percent-encoded. A brace that is meant is \{ there.
//
// # Traps
//
//   - These locks are for certificates that certmagic obtains. Caddy makes its own authority (tls internal) without one: start one
//     server before the others then.
//   - file_system has to be a directory that all servers share. Without storage it is the directory of this machine, where locks
//     exclude nobody but other processes of it.
//   - Caddy starts while no Redis server answers: nodes connect on first use. Then it waits for its locks, and obtains no
//     certificate until a majority answers.
//   - With Encrypted ClientHello (encrypted_client_hello) or distributed session tickets that is not so: Caddy takes a lock while it
//     sets up a configuration with these. If no majority answers, or the servers refuse the login, it does not start, a reload does not
//     end, and caddy stop and SIGTERM wait for that, until a majority answers. SIGKILL ends such a process.
//   - A configuration that is loaded while certificates are obtained does not end their locks. Those of the old configuration are
//     renewed until they are released, for two minutes at most.
//   - Locks that are lost are in the default log of Caddy, as warnings of the logger caddy.storage.redlock.
package caddylock
