
def read_arrow(batches):
    """x"""
    from kclient.records.arrow import table

    return table([r for batch, section in batches for r in read_records(section, batch)])
