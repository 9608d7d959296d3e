// Package cluster runs redis-servers and client processes in namespaces of their own, with a network between them that can be
// broken: packets that are lost, links that are slow or hold everything back, servers that crash, stand still, lose their data
// or have a wrong clock.
//
// A program calls [Isolate] first, and [New] then. Everything else is Linux only, and so is the content of this package. It
// needs the programs ip, nsenter and cc beside the redis-server, and root or the right to make user namespaces.
//
// The addresses are fixed, so there is one cluster at a time in a process. Server j listens on 10.8.0.(1+j):6379. Client i
// lives in a network namespace of its own, and reaches server j through a relay of this process at 10.8.(1+i).(1+j):6379.
package cluster
