//! What runs over a link: services, rate-limited sources and the modelled hosts of virtual time.
