// Package certmagiclock gives a storage of github.com/caddyserver/certmagic the locks of package redlock: several instances of a
// program obtain and renew a certificate once, also while a minority of the Redis servers is down.
//
//	locker, err := redlock.Open(urls, redlock.WithKeyPrefix("certmagic:")) // "redis://10.0.0.1:6379" and so on
//	...
//	storage, err := certmagiclock.New(&certmagic.FileStorage{Path: dir}, locker)
//	...
//	certmagic.Default.Storage = storage // before certmagic.HTTPS, Listen or Manage
//
// The certificates stay where they are: everything but the locks is done by the wrapped storage. It has to be one that all
// instances share, such as a network file system, a database or S3. This is for a storage whose own locks are weak or missing:
// lock files on some network file systems, or a bucket.
//
// The module caddylock (adapters/caddylock) configures the same in Caddy.
//
// # The Locker
//
// Its options are those of the locks. WithKeyPrefix keeps them apart from others on the servers, as certmagic names its locks
// issue_cert_example.com and the like. Instances with one storage need one prefix, and those with another storage another prefix.
// The TTL is how long the others wait after an instance has died, as a lock is renewed for as long as it is held. WithLogger logs
// locks that are lost. The caller closes the Locker, after [Storage.Wait].
//
// certmagic holds a lock while it tries again, for up to 30 days, and so does a storage of its own. With redlock.RenewFor a lock
// ends before, and [Storage.RenewLockLease] takes it again if it is free: so another instance has its turn. RenewFor has to be longer
// than the longest attempt then (certmagic.ACMEIssuer.CertObtainTimeout, 90 s by default).
//
// # A lock that is lost
//
// A lock is lost if a majority of the servers loses its key or cannot be reached for as long as the TTL, or if the process is
// paused for that long. certmagic does not ask in the middle of its work, and does not stop: another instance may obtain the same
// certificate at the same time. Both are valid. They count twice against the limits of the CA, and what is stored last stays;
// certificate and key are stored one after the other, so that those of two instances may get mixed. certmagic says that a Locker
// may fail like that, and rarely.
//
//   - [Storage.Unlock] returns the loss, unless RenewLockLease has taken the lock again. certmagic logs it as an error ("unable to unlock"), and nothing else happens.
//   - Before each attempt to obtain or renew a certificate in the background certmagic calls [Storage.RenewLockLease], which waits
//     for the lock again if it was lost. Then certmagic looks whether the certificate is there already.
//
// # Traps
//
//   - All instances have to use this lock. One that still locks with the storage itself (lock files of FileStorage) and one that
//     locks here do not exclude each other. Stop all, and start all.
//   - If no majority of the servers answers, or they refuse the login or a command, certmagic obtains and renews nothing, as it waits
//     for its locks, whatever redlock.MaxWait and redlock.MaxOutage the Locker has. Certificates that are there are served. A renewal
//     has weeks of time. The log of the Locker says what is wrong.
//   - Data of another program under the name of a lock is the exception: certmagic gives up with redlock.ErrForeign, until it comes to
//     the certificate again.
//   - certmagic.CleanUpOwnLocks releases the locks of a program that exits. It needs the Locker: close that afterwards.
//   - There are no fencing tokens in certmagic: a write that comes late is not refused.
package certmagiclock
