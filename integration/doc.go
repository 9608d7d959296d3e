// Package integration holds the tests that need more than a Redis server beside
// them: five Redis containers on a network of their own, which are paused, killed
// and cut off, and another lock client on the same nodes; and SQL databases and
// clients that are no dependencies of the library.
//
//	make integration
//
// runs them. They need Docker Engine on Linux, since they speak to the containers at
// their addresses on the bridge network, and an image that redis-server is the
// entry point of: QUORUMLOCK_REDIS_IMAGE names it, image.sh finds one. Where Docker or
// the image is missing they are left out; with CI=true that is a failure.
//
// The tests of package fence on SQL databases and with go-redis need no container. PostgreSQL and
// MariaDB run as processes of the tests, in temporary folders. Where one is not installed (make setup) its tests are
// left out; with CI=true that is a failure.
//
// A client in Python (testdata/lock.py) takes locks beside Lockers, on redis-server processes. It needs Python's package
// redis (make setup); without it, its tests are left out, or fail with CI=true.
//
// The soak test runs on redis-server processes instead:
//
//	QUORUMLOCK_SOAK=60s go test -run Soak ./...
package integration
