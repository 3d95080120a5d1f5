//! Two namespaces joined by a veth pair.

use netio::site::Namespace;

/// Two namespaces with `a` and `b`, a veth pair, up and without addresses.
pub(crate) fn pair() -> [Namespace; 2] {
    let [left, right] = [(); 2].map(|()| Namespace::new().unwrap());
    left.configure(|net| net.veth("a", &right, "b")).unwrap();
    for (namespace, name) in [(&left, "a"), (&right, "b")] {
        namespace
            .configure(|net| {
                net.up("lo")?;
                net.ipv6(name, false)?;
                net.up(name)
            })
            .unwrap();
    }
    [left, right]
}
