// Package fencetest holds the tests of package fence on the databases and with the clients that it is written for:
// PostgreSQL, MariaDB and SQLite, and go-redis.
//
// PostgreSQL and MariaDB run as processes of the tests, in temporary folders (Debian and Ubuntu: apt-get install postgresql
// mariadb-server). Where one is not installed its tests are left out; with CI=true that is a failure.
package fencetest
