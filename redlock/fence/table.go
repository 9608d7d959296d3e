package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
)

// maxResource is the longest name of a resource, in bytes.
const maxResource = 255

// Dialect is the SQL that a database speaks. The zero value is not valid.
type Dialect int

// The dialects.
const (
	PostgreSQL Dialect = iota + 1 // 9.5 or newer
	MySQL                         // 5.7 or newer, and MariaDB
	SQLite                        // 3.24 or newer
)

// tableName matches the names that a table may have. A name is written into statements as it is.
var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// A check inserts the row of the resource or waits for it. It stores the fence (in the column fence) unless a higher
// one is there. The row stays locked until the transaction ends. The parameters are the resource and the fence.
var (
	creates = map[Dialect]string{
		PostgreSQL: `CREATE TABLE IF NOT EXISTS %s (resource varchar(255) PRIMARY KEY, fence bigint NOT NULL)`,
		// Binary: otherwise names that differ only in case or in trailing spaces are equal. InnoDB has
		// transactions.
		MySQL:  `CREATE TABLE IF NOT EXISTS %s (resource varbinary(255) PRIMARY KEY, fence bigint NOT NULL) ENGINE=InnoDB`,
		SQLite: `CREATE TABLE IF NOT EXISTS %s (resource text NOT NULL PRIMARY KEY, fence integer NOT NULL)`,
	}
	checks = map[Dialect]string{
		// A row is affected if the fence passes.
		PostgreSQL: `INSERT INTO %s AS seen (resource, fence) VALUES ($1, $2)
			ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence WHERE seen.fence <= excluded.fence`,
		SQLite: `INSERT INTO %s AS seen (resource, fence) VALUES (?1, ?2)
			ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence WHERE seen.fence <= excluded.fence`,
		// The number of affected rows depends on the connection (clientFoundRows) and on whether the fence is
		// new. So the statement returns the highest fence as the last insert ID:
		// https://dev.mysql.com/doc/refman/8.4/en/information-functions.html#function_last-insert-id
		MySQL: `INSERT INTO %s (resource, fence) VALUES (?, LAST_INSERT_ID(?))
			ON DUPLICATE KEY UPDATE fence = LAST_INSERT_ID(GREATEST(fence, ?))`,
	}
)

// Tx is a transaction of a database. [*sql.Tx] is one, and so are its wrappers. [*sql.DB] and [*sql.Conn] are none.
// Some libraries hide the transaction behind an interface that has only ExecContext. In that case give Table.Check the
// transaction itself.
//
// For pgx.Tx of github.com/jackc/pgx/v5 the recipes have an adapter:
// https://github.com/quorumlock/quorumlock/blob/main/docs/recipes.md#pgx.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	// Table.Check calls neither of these: they tell a transaction from a pool or a connection.
	Commit() error
	Rollback() error
}

// Table is a guard table: for each resource a row with the highest fence accepted. It is safe for
// concurrent use.
type Table struct {
	dialect Dialect
	name    string
}

// NewTable returns the guard table of that name: letters, digits and underscores, optionally after a schema
// and a dot ("app.fence"). The error matches [ErrInvalid] if the name has another form or the dialect is unknown.
// NewTable sends nothing to the database: see [Table.Create].
func NewTable(dialect Dialect, table string) (*Table, error) {
	if _, known := checks[dialect]; !known {
		return nil, invalid("Dialect(%d): must be PostgreSQL, MySQL or SQLite", dialect)
	}
	if !tableName.MatchString(table) {
		return nil, invalid(
			"table name %.64q: must be letters, digits and underscores, or two such names with a dot between", table)
	}
	return &Table{dialect, table}, nil
}

// Create returns the statement that creates the table if it does not exist. Execute it once, or put it
// among your migrations.
func (t *Table) Create() string { return fmt.Sprintf(creates[t.dialect], t.name) }

// Check checks fence for the resource. Call it in the transaction of the writes, before them and before the reads that
// they depend on. The row of the resource stays locked until the transaction ends, so no other holder passes between
// the check and the commit. Check waits for other transactions on the same resource (SQLite: on the same file). It
// waits for as long as ctx and the limits of the database allow. The name of the resource has from 1 to 255 bytes.
//
// After any error roll back, which also takes back the fence. The errors:
//   - a [*StaleError]: Seen is 0, except with MySQL.
//   - [ErrInvalid], for a bad name of the resource or a bad fence.
//   - the error of the database, wrapped. After a serialization failure, a deadlock or a busy database try the
//     whole transaction again.
func (t *Table) Check(ctx context.Context, tx Tx, resource string, fence uint64) error {
	if len(resource) == 0 || len(resource) > maxResource {
		return invalid("the resource %.32q has %d bytes: must be from 1 to %d", resource, len(resource), maxResource)
	}
	if err := Valid(fence); err != nil {
		return err
	}
	args := []any{resource, int64(fence)}
	if t.dialect == MySQL {
		args = append(args, int64(fence))
	}
	result, err := tx.ExecContext(ctx, fmt.Sprintf(checks[t.dialect], t.name), args...)
	if err == nil {
		err = t.verdict(result, resource, fence)
	}
	if err != nil && !errors.Is(err, ErrStale) {
		return fmt.Errorf("fence: %q in table %s: %w", resource, t.name, err)
	}
	return err
}

// verdict returns an error if the statement did not accept the fence.
func (t *Table) verdict(result sql.Result, resource string, fence uint64) error {
	if t.dialect == MySQL {
		highest, err := result.LastInsertId()
		switch {
		case err != nil:
			return err
		case highest < int64(fence):
			return fmt.Errorf("the last insert ID is %d, must be at least the fence %d", highest, fence)
		case highest > int64(fence):
			return &StaleError{Resource: resource, Fence: fence, Seen: uint64(highest)}
		}
		return nil
	}
	rows, err := result.RowsAffected()
	if err == nil && rows == 0 {
		err = &StaleError{Resource: resource, Fence: fence}
	}
	return err
}

// CheckUpdated returns an error that matches [ErrStale] if an UPDATE updated no row. Its arguments are the results of
// Exec for that UPDATE. If err is not nil, CheckUpdated returns it, wrapped.
//
// The row itself holds the highest fence, in a column such as "fence bigint NOT NULL DEFAULT 0", and the WHERE
// is the check:
//
//	UPDATE account SET balance = ?, fence = ? WHERE id = ? AND fence <= ?
//
// Bind the fence twice, and call [Valid] first. Every statement that writes the row needs the check. One such
// statement needs no transaction.
//
// CheckUpdated also serves a version column, without fences: SET version = version + 1 WHERE version = ?.
// ErrStale then means that the row has changed since it was read.
//
// ErrStale is also returned if there is no such row. MySQL counts only rows that change, unless the DSN has
// clientFoundRows=true: without it, the same write twice with the same fence returns ErrStale.
//
// A pgconn.CommandTag of pgx becomes a result by driver.RowsAffected(tag.RowsAffected()), of package
// database/sql/driver.
func CheckUpdated(result sql.Result, err error) error {
	var rows int64
	switch {
	case err != nil:
	case result == nil:
		return invalid("CheckUpdated(nil, nil)")
	default:
		rows, err = result.RowsAffected()
	}
	if err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	if rows == 0 {
		return fmt.Errorf("%w: no row was updated", ErrStale)
	}
	return nil
}
