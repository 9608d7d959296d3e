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

// Tx is a transaction of a database, such as *sql.Tx; *sql.DB and *sql.Conn are none. For pgx see
// https://github.com/quorumlock/quorumlock/blob/main/docs/fencing.md.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	// Table.Check calls neither of these: they tell a transaction from a pool or a connection.
	Commit() error
	Rollback() error
}

// Table is a guard table: a row for each resource, with the highest fence. It is safe for concurrent use.
type Table struct {
	dialect Dialect
	name    string
}

// NewTable returns the guard table of a name: letters, digits and underscores, optionally after a schema and a dot
// ("app.fence"). A bad name or dialect is [ErrInvalid]. Nothing is sent: see [Table.Create].
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

// Create returns the statement that creates the table if it does not exist. Execute it once, or among your migrations.
func (t *Table) Create() string { return fmt.Sprintf(creates[t.dialect], t.name) }

// Check checks fence for the resource. Call it in the transaction of the writes, before them and the reads that they
// depend on. The row stays locked until the transaction ends. Check waits for other transactions on the resource
// (SQLite: on the file), as long as ctx and the database allow. resource has 1 to 255 bytes.
//
// After any error roll back. The errors:
//   - a [*StaleError]: Seen is 0, except with MySQL;
//   - [ErrInvalid]: a bad resource or fence;
//   - the error of the database, wrapped. After a serialization failure or a deadlock try the whole transaction again.
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
// Exec; an err is returned, wrapped. The row has a column for the highest fence, and the WHERE is the check:
//
//	UPDATE account SET balance = ?, fence = ? WHERE id = ? AND fence <= ?
//
// Bind the fence twice, and call [Valid] first. Every statement that writes the row needs the check. A version column
// serves too: SET version = version + 1 WHERE version = ?.
//
// A missing row is ErrStale too. With MySQL set clientFoundRows=true in the DSN, or the same write twice is ErrStale.
// For pgx pass driver.RowsAffected(tag.RowsAffected()).
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
