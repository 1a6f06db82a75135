-- at_ns, why, name, order_no
INSERT INTO broken (at_ns, name, order_no, label, host, pid, why)
SELECT ?1, name, order_no, label, host, pid, ?2 FROM claims WHERE name = ?3 AND order_no = ?4
