-- name, order_no, id, mode, take, out_of, keeper, granted_ns, ends_ns, entered_ns, label, host, pid
INSERT INTO claims (
    name, order_no, id, mode, take, out_of, keeper, granted_ns, ends_ns, entered_ns, label, host, pid
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
